// Runs the scenarios of Tests/ClientScenarios in Node.js. browser.py runs them in Chromium.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileStorage } from "../file-storage.js";
import { Device } from "./device.js";
import { scenarios, Server } from "./server.js";

/** Takes a step. `start` is the time between the scenario's clock and the real one. */
async function take(step, devices, server, start) {
  if (step.server === "stop") return server.stop();
  if (step.server === "start") return server.start({ at: step.at ?? new Date(Date.now() + start).toISOString() });
  const { device: name } = step;
  if (!devices.has(name)) {
    const storage = fileStorage(join(server.folder, name));
    devices.set(name, new Device({ server: server.url, root: server.root, storage, skew: start }));
  }
  return devices.get(name).take(step);
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
      try {
        await take(step, devices, server, start);
      } catch (error) {
        error.message = `step ${index + 1}, ${JSON.stringify(step)}: ${error.description ?? error.message}`;
        throw error;
      }
    }
  });
}
