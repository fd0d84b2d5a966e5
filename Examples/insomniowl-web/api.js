// Requests to the server: the session, its tokens, and errors in plain words.
//
// The access token lives in this module's memory only. The refresh token is in localStorage, so that a visit tomorrow
// needs no password; README.md says what that costs.

const storageKey = "insomniowl.session";
const patience = 15_000;

/** The server refused a request (RFC 9457). `message` is fit for a person. */
export class Refusal extends Error {
  constructor(status, problem, retryAfter) {
    super(Refusal.#words(status, problem, retryAfter));
    this.status = status;
    this.code = problem.error ?? null;
    this.retryAfter = retryAfter;
    /** Whether it may have been done all the same. */
    this.isUnsettled = status >= 500 && (problem.disposition ?? "outcomeUnknown") === "outcomeUnknown";
  }

  static #words(status, problem, retryAfter) {
    if (status === 429) return `Too many tries. Please wait ${duration(retryAfter ?? 60)}.`;
    if (status === 503) return "The server is busy. Please try again in a moment.";
    if (status === 507) return "The server has no space left. Please try again later.";
    if (status >= 500) return "The server has failed. Please try again later.";
    return sentence(problem.detail ?? `The server refused this (${status}).`);
  }
}

/** No answer: no network, or no server. Whether a request was done is open. */
export class Unreachable extends Error {
  constructor() { super("The server does not answer. Please check your connection and try again."); }
}

/** Nobody is logged in, or no longer. */
export class SessionOver extends Error {
  constructor() { super("Your session has ended. Please log in again."); }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");

function duration(seconds) {
  if (seconds < 90) return `${seconds} seconds`;
  return `${Math.ceil(seconds / 60)} minutes`;
}

/**
 * The path of a key, percent-encoded. Slashes are kept, unless a part is only of dots, which every browser would take
 * for a step up: then they are written as %2F.
 */
export function keyPath(key) {
  const parts = key.split("/");
  const isPlain = parts.every((part) => /[^.]/.test(part));
  const encoded = parts.map((part) => {
    const text = encodeURIComponent(part);
    return /[^.]/.test(part) ? text : text.replaceAll(".", "%2E");
  });
  return `/v1/kv/${encoded.join(isPlain ? "/" : "%2F")}`;
}

/**
 * The server and the session with it. Events: `session` (logged in, out, or in another tab), `over` (the session ended
 * by itself), `reached` and `unreachable`.
 */
export class Api extends EventTarget {
  #accessToken = null;
  #refreshing = null;
  #clockOffset = 0;

  constructor() {
    super();
    // Another tab logged in or out: what this one has in memory is of another session.
    window.addEventListener("storage", (event) => {
      if (event.key !== storageKey && event.key !== null) return;
      const [before, after] = [event.oldValue, event.newValue].map((text) => parsed(text)?.incarnation);
      if (event.key !== null && before === after) return;
      this.#accessToken = null;
      this.dispatchEvent(new Event("session"));
    });
  }

  /** {account, incarnation} of who is logged in, or null. */
  get session() {
    const stored = this.#stored();
    return stored && { account: stored.account, incarnation: stored.incarnation };
  }

  /** The server's clock in milliseconds, as far as its last answer told. */
  now() { return Date.now() + this.#clockOffset; }

  // Accounts and sessions.

  /** Makes an account, and logs in. Gives the recovery codes; null where the account was there already. */
  async signUp(name, password) {
    const made = await decoded(await this.#send("POST", "/v1/accounts", { json: { name, password } }));
    this.#begin(made);
    return made.recovery_codes ?? null;
  }

  logIn(username, password) {
    return this.#grant({ grant_type: "password", username, password });
  }

  /** A new password by a recovery code, which is used up. */
  recover(username, recovery_code, new_password) {
    return this.#grant({ grant_type: "urn:entitlementsync:recovery-code", username, recovery_code, new_password });
  }

  /** Logs out: the server forgets the session where it can be reached, this page in any case. */
  async logOut() {
    try {
      await this.request("DELETE", "/v1/sessions");
    } catch (error) {
      if (!(error instanceof SessionOver || error instanceof Unreachable || error instanceof Refusal)) throw error;
    }
    this.#end();
  }

  /** Ends all sessions of the account. Where that fails nothing has ended, here neither. */
  async logOutEverywhere() {
    await this.request("DELETE", "/v1/sessions?everywhere=true");
    this.#end();
  }

  async self() { return decoded(await this.request("GET", "/v1/accounts/self")); }

  async changePassword(password, new_password) {
    await this.request("PUT", "/v1/accounts/self/password", { json: { password, new_password } });
  }

  async renewRecoveryCodes(password) {
    const answer = await this.request("POST", "/v1/accounts/self/recovery-codes", { json: { password } });
    return (await decoded(answer)).recovery_codes;
  }

  async erase(password) {
    await this.request("POST", "/v1/accounts/self/erasure", { json: { password } });
    this.#end();
  }

  /** To let a device in takes the password; to refuse it takes none. */
  async decideDevice(user_code, approve, password) {
    const json = approve ? { user_code, approve, password } : { user_code, approve };
    await this.request("POST", "/v1/devices/approvals", { json });
  }

  /** Forgets the session, as after an erasure elsewhere. */
  forget() { this.#end(); }

  // Data.

  async catalog() { return decoded(await this.#send("GET", "/v1/catalog")); }

  async entitlements() { return decoded(await this.request("GET", "/v1/entitlements")); }

  /** {bytes, tag}; null where nothing is there, "unchanged" where it is still the version of `knownTag`. */
  async read(key, knownTag = null) {
    const headers = knownTag ? { "If-None-Match": knownTag } : {};
    const answer = await this.request("GET", keyPath(key), { headers, expected: [304, 404] });
    if (answer.status === 404) return null;
    if (answer.status === 304) return "unchanged";
    return entry(answer);
  }

  /** Writes where `tag` is still the version, null for nothing there: {tag}, or {conflict: entry or null}. */
  async write(key, bytes, tag) {
    const headers = {
      "Content-Type": "application/octet-stream",
      ...(tag ? { "If-Match": tag } : { "If-None-Match": "*" }),
    };
    const answer = await this.request("PUT", keyPath(key), { headers, body: bytes, expected: [412] });
    if (answer.status !== 412) return { tag: answer.headers.get("ETag") };
    if (answer.headers.get("Content-Type") === "application/octet-stream") return { conflict: await entry(answer) };
    // Nothing is there, or the value was left out of the answer.
    return { conflict: await this.read(key) };
  }

  /** The stream of changes; the caller reads its body and ends it by `signal`. */
  changes(lastEventID, signal) {
    const headers = { Accept: "text/event-stream", ...(lastEventID ? { "Last-Event-ID": lastEventID } : {}) };
    return this.request("GET", "/v1/changes", { headers, signal, expected: [410] });
  }

  // Requests.

  /**
   * A request of the session. Where the access token counts nothing any more, it is refreshed once, and the request
   * sent once more. Throws Refusal, Unreachable or SessionOver.
   */
  async request(method, path, options = {}) {
    const token = this.#accessToken ?? await this.#refreshed(null);
    try {
      return await this.#send(method, path, { ...options, token });
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 401)) throw error;
    }
    try {
      return await this.#send(method, path, { ...options, token: await this.#refreshed(token) });
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 401)) throw error;
      this.#endBySomebodyElse();
      throw new SessionOver();
    }
  }

  /** A new access token in the place of `used`: one refresh for all who wait, in all tabs. */
  async #refreshed(used) {
    if (this.#accessToken && this.#accessToken !== used) return this.#accessToken;
    this.#refreshing ??= this.#refreshAlone().finally(() => { this.#refreshing = null; });
    await this.#refreshing;
    return this.#accessToken;
  }

  #refreshAlone() {
    // Locks exist in secure contexts only. Without, two tabs may use one refresh token: within a minute both get the
    // same successor.
    if (!navigator.locks) return this.#refresh();
    return navigator.locks.request(storageKey, () => this.#refresh());
  }

  async #refresh() {
    const stored = this.#stored();
    if (!stored) throw new SessionOver();
    try {
      const json = { grant_type: "refresh_token", refresh_token: stored.refreshToken };
      this.#keep(await decoded(await this.#send("POST", "/v1/sessions", { json })));
    } catch (error) {
      if (!(error instanceof Refusal && error.code === "invalid_grant")) throw error;
      this.#endBySomebodyElse();
      throw new SessionOver();
    }
  }

  async #grant(json) { this.#begin(await decoded(await this.#send("POST", "/v1/sessions", { json }))); }

  async #send(method, path, { json, body, headers = {}, token = null, signal = null, expected = [] } = {}) {
    const all = { ...headers };
    if (token) all.Authorization = `Bearer ${token}`;
    if (json) all["Content-Type"] = "application/json";
    const patient = new AbortController();
    const timer = setTimeout(() => patient.abort(), patience);
    const stop = () => patient.abort();
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    let answer;
    try {
      answer = await fetch(path, {
        method, headers: all, body: json ? JSON.stringify(json) : body, signal: patient.signal,
        cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
      });
    } catch {
      if (!signal?.aborted) this.dispatchEvent(new Event("unreachable"));
      throw new Unreachable();
    } finally {
      clearTimeout(timer);
    }
    const time = Number(answer.headers.get("EntitlementSync-Time"));
    if (time > 0) this.#clockOffset = time - Date.now();
    this.dispatchEvent(new Event("reached"));
    if (answer.ok || expected.includes(answer.status)) return answer;
    throw await refusal(answer);
  }

  // What is kept.

  #stored() { return parsed(localStorage.getItem(storageKey)); }

  #keep({ access_token, refresh_token, account, incarnation }) {
    this.#accessToken = access_token;
    localStorage.setItem(storageKey, JSON.stringify({ account, incarnation, refreshToken: refresh_token }));
  }

  #begin(grant) {
    this.#keep(grant);
    this.dispatchEvent(new Event("session"));
  }

  #end() {
    this.#accessToken = null;
    if (this.#stored() === null) return;
    localStorage.removeItem(storageKey);
    this.dispatchEvent(new Event("session"));
  }

  #endBySomebodyElse() {
    const account = this.#stored()?.account ?? "";
    this.#end();
    this.dispatchEvent(new CustomEvent("over", { detail: { account } }));
  }
}

function parsed(text) {
  try {
    const stored = JSON.parse(text ?? "null");
    return stored?.refreshToken && stored.incarnation ? stored : null;
  } catch {
    return null;
  }
}

async function entry(answer) {
  return { bytes: new Uint8Array(await body(answer)), tag: answer.headers.get("ETag") };
}

/** The body, which can be cut off when the head has come. */
async function body(answer) {
  try { return await answer.arrayBuffer(); } catch { throw new Unreachable(); }
}

async function decoded(answer) {
  const bytes = await body(answer);
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new Refusal(502, { detail: "the answer is no JSON" }, null);
  }
}

async function refusal(answer) {
  let problem = {};
  try { problem = await answer.json(); } catch { /* A proxy on the way has answered: the status has to do. */ }
  const retryAfter = Number(answer.headers.get("Retry-After"));
  return new Refusal(answer.status, problem ?? {}, retryAfter > 0 ? retryAfter : null);
}
