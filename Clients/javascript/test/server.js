// Runs `syncd serve` for tests.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Turns } from "../entitlement-sync.js";

export const repository = fileURLToPath(new URL("../../..", import.meta.url));
export const scenarios = join(repository, "Tests/ClientScenarios");
const syncd = process.env.SYNCD ?? join(repository, ".build/debug/syncd");
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SYNCD")));

/** A storage in memory. */
export function memoryStorage() {
  const turns = new Turns();
  let text = "null";
  return {
    read: async () => JSON.parse(text),
    update: async (change) => { text = JSON.stringify(change(JSON.parse(text))); },
    exclusively: (name, body) => turns.take(name, body),
    watch: () => () => {},
  };
}

/** A server with a store of its own, at a port of its own. */
export class Server {
  folder = mkdtempSync(join(tmpdir(), "entitlement-sync-"));
  url = "";
  root = null;
  log = "";
  #arguments;
  #process = null;

  constructor({
    catalog = "catalog.json", policy = "trusted", ownership = "keepWithFirst", isSigned = false, more = [],
  } = {}) {
    this.#arguments = [
      "serve", "--store", `sqlite:${join(this.folder, "store.sqlite")}`,
      ...(catalog ? ["--catalog", join(scenarios, catalog)] : []),
      "--policy", policy, "--ownership", ownership, "--password-cost", "10", "--log-level", "warning", ...more,
    ];
    if (!isSigned) return;
    const file = join(this.folder, "root.pem");
    this.root = execFileSync(syncd, ["keys", "root", file, "--create"], { env: environment }).toString().trim();
    this.#arguments.push("--root-key", file, "--grant-days", "7");
  }

  /** Starts a server, and ends it after the test. */
  static async started(test, options = {}) {
    const server = new Server(options);
    test.after(() => server.remove());
    await server.start(options);
    return server;
  }

  async start({ at } = {}) {
    const listen = this.url ? new URL(this.url).host : "127.0.0.1:0";
    const started = spawn(syncd, [...this.#arguments, "--listen", listen, ...(at ? ["--at", at] : [])], {
      stdio: ["ignore", "pipe", "pipe"], env: environment,
    });
    this.#process = started;
    started.stderr.on("data", (text) => { this.log += text; });
    const [line] = await Promise.race([
      new Promise((resolve) => { createInterface(started.stdout).once("line", (text) => resolve([text])); }),
      new Promise((resolve) => { started.once("exit", () => resolve([])); }),
    ]);
    if (!line?.startsWith("listening on ")) {
      this.#process = null;
      throw new Error(`the server did not start: ${this.log}`);
    }
    this.url = line.split(" ").at(-1);
  }

  async stop() {
    const ended = new Promise((resolve) => { this.#process.once("exit", resolve); });
    this.#process.kill("SIGTERM");
    await ended;
    this.#process = null;
  }

  async remove() {
    if (this.#process) await this.stop();
    rmSync(this.folder, { recursive: true });
  }

  /** Sends a request as another program of the account. */
  async post(path, json, token) {
    const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
    const answer = await fetch(this.url + path, { method: "POST", headers, body: JSON.stringify(json) });
    return { status: answer.status, value: answer.status === 204 ? null : await answer.json() };
  }
}
