// A device of a scenario: a client with its storage, its link and its clock. Runs in Node.js and in browsers.

import { Shop, ShopError } from "../entitlement-sync.js";

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

const earlier = ({ adopt = false }) => ({ earlierPurchases: adopt ? "adopt" : "leaveOnDevice" });

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

export class Device {
  link = new Link();
  #options;
  #skew;
  #shop = null;

  /** `skew` is the time in milliseconds between the device's clock and the real one. */
  constructor({ server, root, storage, skew }) {
    this.#options = {
      server, storage, fetch: this.link.fetch, trust: root && { roots: [root] }, clock: () => Date.now() + this.#skew,
    };
    this.#skew = skew;
  }

  /** Takes a step of this device. Throws if its outcome is not the expected one. */
  async take(step) {
    if (step.clock) this.#skew = Date.parse(step.clock) - Date.now();
    else if (step.reopen) this.#close();
    else if (step.link === "down" || step.link === "up") this.link.isDown = step.link === "down";
    else if (step.link === "unknown-fields") this.link.hasUnknownFields = true;
    else if (step.link) this.link.fail(step.link, step.path);
    else await this.#call(step);
  }

  #close() {
    this.#shop?.close();
    this.#shop = null;
  }

  async #call(step) {
    this.#shop ??= await Shop.open(this.#options);
    let [result, kind] = [null, null];
    try {
      result = await calls[step.call](this.#shop, step);
    } catch (error) {
      if (!(error instanceof ShopError) || step.error === undefined) throw error;
      ({ kind } = error);
    }
    if (kind !== (step.error ?? null)) throw new Error(`the error is ${kind}, not ${step.error}`);
    for (const [name, expected] of Object.entries(step.expect ?? {})) {
      const seen = result[name] instanceof Date ? result[name].getTime() : result[name];
      const wanted = result[name] instanceof Date && expected !== null ? Date.parse(expected) : expected;
      if (seen !== wanted) throw new Error(`${name} is ${JSON.stringify(result)}, not ${JSON.stringify(expected)}`);
    }
  }
}
