// The storage of Node.js: a folder, which processes of one machine may share.

import { constants as codes, promises as fs } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { ShopError, Turns } from "./entitlement-sync.js";

const turns = new Turns();

/** A storage in a folder. It has the tokens of the session, so only its owner may read it. */
export function fileStorage(folder) {
  const file = join(folder, "state.json");
  const read = () => guarded(folder, async () => {
    const text = await contents(file);
    try { return JSON.parse(text ?? "null"); } catch (error) {
      throw new ShopError("damaged", `${file} is not JSON: ${error.message}`, { cause: error });
    }
  });
  const exclusively = (name, body) => turns.take(`${folder}\n${name}`, async () => {
    const release = await guarded(folder, async () => {
      await fs.mkdir(folder, { recursive: true, mode: 0o700 });
      return acquired(folder, name);
    });
    try { return await body(); } finally { await guarded(folder, release); }
  });
  return {
    read, exclusively,
    update: (change) => exclusively("state", async () => {
      const text = JSON.stringify(change(await read()));
      await guarded(folder, () => replace(folder, file, text));
    }),
    watch: () => () => {},
  };
}

async function guarded(folder, body) {
  try { return await body(); } catch (error) {
    if (error instanceof ShopError || error.code === undefined) throw error;
    const kind = ["ENOSPC", "EDQUOT"].includes(error.code) ? "full" : "storage";
    throw new ShopError(kind, `${folder}: ${error.message}`, { cause: error });
  }
}

/** The text of a file; null for no file. */
async function contents(file) {
  try { return await fs.readFile(file, "utf8"); } catch (error) {
    if (error.code === "ENOENT") return null;
    throw error;
  }
}

/** Replaces a file durably. */
async function replace(folder, file, text) {
  await fs.writeFile(`${file}.new`, text, { mode: 0o600, flush: true });
  await fs.rename(`${file}.new`, file);
  const opened = await fs.open(folder, codes.O_RDONLY);
  try { await opened.sync(); } finally { await opened.close(); }
}

/**
 * Acquires the lock `name` of a folder, and returns a function that releases it.
 *
 * Each holder creates a file with the next number, which names its process. The file with the highest number tells the
 * holder; it is never deleted, and is emptied at the release. A lock whose process has ended is free.
 */
async function acquired(folder, name) {
  const prefix = `${name}.lock.`;
  const fileOf = (number) => join(folder, prefix + number);
  const numbers = async () => (await fs.readdir(folder)).filter((each) => each.startsWith(prefix))
    .map((each) => Number(each.slice(prefix.length))).sort((left, right) => left - right);
  const mine = join(folder, `${name}.${process.pid}.${crypto.randomUUID()}`);
  await fs.writeFile(mine, `${process.pid} ${await startOf(process.pid)}`, { mode: 0o600 });
  try {
    for (let pause = 2; ; pause = Math.min(2 * pause, 50)) {
      const last = (await numbers()).at(-1) ?? 0;
      const next = fileOf(last + 1);
      if ((last === 0 || await isFree(fileOf(last))) && await isLinked(mine, next)) {
        const all = await numbers();
        if (all.at(-1) === last + 1) {
          // A slow process may still look at the latest numbers.
          for (const old of all.filter((each) => each < last - 8)) await fs.rm(fileOf(old), { force: true });
          return () => fs.truncate(next);
        }
        await fs.rm(next);
      }
      await new Promise((resolve) => { setTimeout(resolve, pause * (0.5 + Math.random())); });
    }
  } finally {
    await fs.rm(mine);
  }
}

/** True if the holder of a lock has released it or has ended. */
async function isFree(lock) {
  const holder = await contents(lock);
  if (!holder) return holder === "";
  const [pid, start] = holder.split(" ");
  try { process.kill(Number(pid), 0); } catch (error) { return error.code === "ESRCH"; }
  return await startOf(pid) !== start;
}

/** The start of a process, which tells it from a later one with the same id; empty where the system has no `/proc`. */
async function startOf(pid) {
  return (await contents(`/proc/${pid}/stat`))?.split(") ").pop().split(" ")[19] ?? "";
}

async function isLinked(file, link) {
  try { await fs.link(file, link); } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  }
  return true;
}
