// Runs the scenarios of Tests/ClientScenarios.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Shop, ShopError } from "../entitlement-sync.js";
import { fileStorage } from "../file-storage.js";
import { Link, scenarios, Server } from "./server.js";

/** A client with its storage, its link and its clock. */
class Device {
  link = new Link();
  #name;
  #server;
  #skew;
  #shop = null;

  constructor(name, server, skew) { [this.#name, this.#server, this.#skew] = [name, server, skew]; }

  async shop() {
    this.#shop ??= await Shop.open({
      server: this.#server.url, storage: fileStorage(join(this.#server.folder, this.#name)), fetch: this.link.fetch,
      trust: this.#server.root && { roots: [this.#server.root] }, clock: () => Date.now() + this.#skew,
    });
    return this.#shop;
  }

  setClock(time) { this.#skew = Date.parse(time) - Date.now(); }

  close() {
    this.#shop?.close();
    this.#shop = null;
  }
}

const calls = {
  signUp: (shop, step) => shop.signUp(step.name, step.password, earlier(step)),
  logIn: (shop, step) => shop.logIn(step.name, step.password, earlier(step)),
  logOut: (shop, { everywhere = false }) => shop.logOut({ everywhere }),
  deleteAccount: (shop, { password }) => shop.deleteAccount(password),
  account: async (shop) => ({ name: (await shop.account())?.name ?? null }),
  report: (shop, { item }) => shop.report(item),
  refresh: (shop) => shop.refresh(),
  restore: (shop) => shop.restore(),
  access: (shop, { entitlement }) => shop.access(entitlement),
  use: (shop, { entitlement, id }) => shop.use(entitlement, { id }),
  waiting: async (shop) => ({ count: await shop.waiting() }),
};

const earlier = ({ adopt = false }) => ({ earlierPurchases: adopt ? "adopt" : "leaveOnDevice" });

/** Runs a step. `start` is the time between the scenario's clock and the real one. */
async function run(step, device, server, start) {
  if (step.server === "stop") return server.stop();
  if (step.server === "start") return server.start({ at: step.at ?? new Date(Date.now() + start).toISOString() });
  if (step.clock) return device.setClock(step.clock);
  if (step.reopen) return device.close();
  if (step.link === "down" || step.link === "up") return void (device.link.isDown = step.link === "down");
  if (step.link === "unknown-fields") return void (device.link.hasUnknownFields = true);
  if (step.link) return device.link.fail(step.link, step.path);
  const shop = await device.shop();
  let result;
  try {
    result = await calls[step.call](shop, step);
  } catch (error) {
    if (!(error instanceof ShopError) || step.error === undefined) throw error;
    return assert.equal(error.kind, step.error, error.description);
  }
  assert.equal(step.error, undefined, `${step.call} succeeded`);
  for (const [name, value] of Object.entries(step.expect ?? {})) {
    const isTime = result[name] instanceof Date && value !== null;
    assert.deepEqual(isTime ? result[name].getTime() : result[name], isTime ? Date.parse(value) : value, name);
  }
  return undefined;
}

for (const file of readdirSync(scenarios).filter((name) => /^\d.*\.json$/.test(name)).sort()) {
  const scenario = JSON.parse(readFileSync(join(scenarios, file), "utf8"));
  const isMine = (part) => part.only?.includes("javascript") ?? true;
  test(`${file}: ${scenario.about}`, { skip: !isMine(scenario) }, async (test) => {
    const { at, catalog, policy, ownership, signed } = scenario;
    const start = Date.parse(at) - Date.now();
    const server = await Server.started(test, { at, catalog, policy, ownership, isSigned: signed });
    const devices = new Map();
    for (const [index, step] of scenario.steps.entries()) {
      if (!isMine(step)) continue;
      if (step.device && !devices.has(step.device)) devices.set(step.device, new Device(step.device, server, start));
      try {
        await run(step, devices.get(step.device), server, start);
      } catch (error) {
        error.message = `step ${index + 1}, ${JSON.stringify(step)}: ${error.description ?? error.message}`;
        throw error;
      }
    }
  });
}
