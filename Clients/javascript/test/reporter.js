// A process that reports purchases one after another. Prints the number of each one that is durable.
// Arguments: SERVER FOLDER PREFIX COUNT

import { Shop } from "../entitlement-sync.js";
import { fileStorage } from "../file-storage.js";

const [server, folder, prefix, count] = process.argv.slice(2);
const shop = await Shop.open({ server, storage: fileStorage(folder) });
for (let index = 0; index < Number(count); index += 1) {
  const { recorded, failure } = await shop.report({ product: "pack", transaction: `${prefix}-${index}` });
  process.stdout.write(`${index} ${recorded} ${failure ?? ""}\n`);
}
