// Runs `syncd serve` for tests, and a link between a client and it that fails on request.

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

/** A link to a server, in the place of `fetch`. */
export class Link {
  isDown = false;
  hasUnknownFields = false;
  /** The requests that were sent, as `METHOD PATH`, and the body of the last one. */
  sent = [];
  body = null;
  #faults = [];
  #holds = [];

  /** Makes the next request to a path that begins with `path` fail. */
  fail(fault, path) { this.#faults.push({ fault, path }); }

  /** Delays the answer to the next request to a path. Resolves to a function that continues, once it was sent. */
  hold(path) {
    return new Promise((resolve) => { this.#holds.push({ path, resolve }); });
  }

  fetch = async (address, options) => {
    const { pathname } = new URL(address);
    if (this.isDown) throw new TypeError("the link is down");
    const index = this.#faults.findIndex(({ path }) => pathname.startsWith(path));
    const fault = index < 0 ? null : this.#faults.splice(index, 1)[0].fault;
    if (fault === "lose-request") throw new TypeError("the request was lost");
    if (fault === "refuse-token") {
      const problem = { type: "about:blank", title: "Unauthorized", status: 401, detail: "the token has expired" };
      return new Response(JSON.stringify(problem), { status: 401 });
    }
    if (fault === "foreign") return new Response("<!doctype html><title>Welcome</title>", { status: 200 });
    this.sent.push(`${options.method} ${pathname}`);
    if (options.body) this.body = JSON.parse(options.body);
    const answer = await fetch(address, options);
    const held = this.#holds.findIndex(({ path }) => pathname.startsWith(path));
    if (held >= 0) {
      const { resolve } = this.#holds.splice(held, 1)[0];
      await new Promise((go) => { resolve(go); });
    }
    if (fault === "lose-answer") {
      await answer.arrayBuffer();
      throw new TypeError("the answer was lost");
    }
    const isJSON = answer.headers.get("Content-Type")?.includes("json");
    if (!this.hasUnknownFields || !isJSON) return answer;
    const { status, headers } = answer;
    const text = JSON.stringify(withUnknownField(await answer.json()));
    return new Response(text, { status, headers: new Headers(headers) });
  };
}

function withUnknownField(value) {
  if (Array.isArray(value)) return value.map(withUnknownField);
  if (value === null || typeof value !== "object") return value;
  const members = Object.entries(value).map(([name, each]) => [name, withUnknownField(each)]);
  return { ...Object.fromEntries(members), later: { version: 2 } };
}
