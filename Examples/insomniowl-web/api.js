// Requests to the server, the session with its tokens, and error messages.
//
// The access token is kept in memory only. The refresh token is in localStorage, so that the next visit needs no
// password; README.md describes the risk.

const storageKey = "insomniowl.session";
const requestTimeout = 15_000;

/** A request that the server refused (RFC 9457). `message` can be shown to the user. */
export class Refusal extends Error {
  constructor(status, problem, retryAfter) {
    super(Refusal.#text(status, problem, retryAfter));
    this.status = status;
    this.code = problem.error ?? null;
    this.retryAfter = retryAfter;
    /** True if the server may have done the request anyway. */
    this.isOutcomeUnknown = status >= 500 && (problem.disposition ?? "outcomeUnknown") === "outcomeUnknown";
  }

  static #text(status, problem, retryAfter) {
    if (status === 429) return `Too many attempts. Please wait ${duration(retryAfter ?? 60)}.`;
    if (status === 503) return "The server is busy. Please try again in a moment.";
    if (status === 507) return "The server has no space left. Please try again later.";
    if (status >= 500) return "The server has failed. Please try again later.";
    return sentence(problem.detail ?? `The server refused this (${status}).`);
  }
}

/** No answer, because of the network or the server. The outcome of the request is unknown. */
export class Unreachable extends Error {
  constructor() { super("The server does not answer. Please check your connection and try again."); }
}

/** No user is logged in, or the session has ended. */
export class SessionOver extends Error {
  constructor() { super("Your session has ended. Please log in again."); }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");

function duration(seconds) {
  if (seconds < 90) return `${seconds} seconds`;
  return `${Math.ceil(seconds / 60)} minutes`;
}

/**
 * The path of a key, percent-encoded. Slashes are kept unless a part consists of dots only: browsers resolve such
 * parts as steps up, so the slashes are written as %2F.
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
 * The server and the session with it. Events: `session` (the user logged in or out, here or in another tab), `over`
 * (the server ended the session), `reached` and `unreachable`.
 */
export class Api extends EventTarget {
  #accessToken = null;
  #refreshing = null;
  #refreshCount = 0;
  #clockOffset = 0;

  /** False after a request that got no answer. */
  isReachable = true;

  constructor() {
    super();
    // After another tab logs in or out, the token in memory belongs to the wrong session.
    window.addEventListener("storage", (event) => {
      if (event.key !== storageKey && event.key !== null) return;
      const [before, after] = [event.oldValue, event.newValue].map((text) => parsed(text)?.incarnation);
      if (event.key !== null && before === after) return;
      this.#accessToken = null;
      this.dispatchEvent(new Event("session"));
    });
  }

  /** {account, incarnation} of the session; null when logged out. */
  get session() {
    const stored = this.#stored();
    return stored && { account: stored.account, incarnation: stored.incarnation };
  }

  /** The server's clock in milliseconds, as of its last answer. */
  now() { return Date.now() + this.#clockOffset; }

  // Accounts and sessions.

  /** Creates an account and logs in. Returns the recovery codes; null if the account existed and the password fits. */
  async signUp(name, password) {
    const made = await decoded(await this.#send("POST", "/v1/accounts", { json: { name, password } }));
    this.#begin(made);
    return made.recovery_codes ?? null;
  }

  logIn(username, password) {
    return this.#grant({ grant_type: "password", username, password });
  }

  /** Sets a new password with a recovery code, and logs in. All recovery codes of the account become invalid. */
  recover(username, recovery_code, new_password) {
    return this.#grant({ grant_type: "urn:entitlementsync:recovery-code", username, recovery_code, new_password });
  }

  /** Logs out. The page forgets the session even if the server cannot be reached. */
  async logOut() {
    try {
      await this.request("DELETE", "/v1/sessions");
    } catch (error) {
      if (!(error instanceof SessionOver || error instanceof Unreachable || error instanceof Refusal)) throw error;
    }
    this.#end();
  }

  /** Ends all sessions of the account. On failure the page stays logged in. */
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

  /** Approves or denies a device. Approving requires the password. */
  async decideDevice(user_code, approve, password) {
    const json = approve ? { user_code, approve, password } : { user_code, approve };
    await this.request("POST", "/v1/devices/approvals", { json });
  }

  /** Forgets the session, for example after the account was erased on another device. */
  forget() { this.#end(); }

  // Data.

  async catalog() { return decoded(await this.#send("GET", "/v1/catalog")); }

  async entitlements() { return decoded(await this.request("GET", "/v1/entitlements")); }

  /** {bytes, tag}; null for an absent key, "unchanged" if the version is still `knownTag`. */
  async read(key, knownTag = null) {
    const headers = knownTag ? { "If-None-Match": knownTag } : {};
    const answer = await this.request("GET", keyPath(key), { headers, expected: [304, 404] });
    if (answer.status === 404) return null;
    if (answer.status === 304) return "unchanged";
    return entry(answer);
  }

  /** Writes if the version is still `tag` (null: absent). Returns {tag}, or {conflict: entry or null}. */
  async write(key, bytes, tag) {
    const headers = {
      "Content-Type": "application/octet-stream",
      ...(tag ? { "If-Match": tag } : { "If-None-Match": "*" }),
    };
    const answer = await this.request("PUT", keyPath(key), { headers, body: bytes, expected: [412] });
    if (answer.status !== 412) return { tag: answer.headers.get("ETag") };
    if (answer.headers.get("Content-Type") === "application/octet-stream") return { conflict: await entry(answer) };
    // The key is absent, or the server left the value out of its answer.
    return { conflict: await this.read(key) };
  }

  /** The stream of changes. The caller reads the body and ends it with `signal`. */
  changes(lastEventID, signal) {
    const headers = { Accept: "text/event-stream", ...(lastEventID ? { "Last-Event-ID": lastEventID } : {}) };
    return this.request("GET", "/v1/changes", { headers, signal, expected: [410] });
  }

  // Requests.

  /**
   * Sends a request with the session's access token. If the token is rejected, it is refreshed and the request sent
   * once more. Throws Refusal, Unreachable or SessionOver.
   */
  async request(method, path, options = {}) {
    const token = this.#accessToken ?? await this.#refreshed(null);
    const used = this.#refreshCount;
    try {
      return await this.#send(method, path, { ...options, token });
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 401)) throw error;
    }
    try {
      return await this.#send(method, path, { ...options, token: await this.#refreshed(used) });
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 401)) throw error;
      this.#endedByServer();
      throw new SessionOver();
    }
  }

  /**
   * Replaces the access token after `used` refreshes. All waiting requests, in all tabs, share one refresh. The tokens
   * themselves are no measure: two of the same second are equal.
   */
  async #refreshed(used) {
    if (this.#accessToken && this.#refreshCount !== used) return this.#accessToken;
    this.#refreshing ??= this.#refreshAlone().finally(() => { this.#refreshing = null; });
    await this.#refreshing;
    return this.#accessToken;
  }

  #refreshAlone() {
    // Locks exist in secure contexts only. Without them two tabs may send the same refresh token; within a minute the
    // server gives both the same successor.
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
      this.#endedByServer();
      throw new SessionOver();
    }
  }

  async #grant(json) { this.#begin(await decoded(await this.#send("POST", "/v1/sessions", { json }))); }

  async #send(method, path, { json, body, headers = {}, token = null, signal = null, expected = [] } = {}) {
    const all = { ...headers };
    if (token) all.Authorization = `Bearer ${token}`;
    if (json) all["Content-Type"] = "application/json";
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(), requestTimeout);
    const stop = () => controller.abort();
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    let answer;
    try {
      answer = await fetch(path, {
        method, headers: all, body: json ? JSON.stringify(json) : body, signal: controller.signal,
        cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
      });
    } catch {
      if (!signal?.aborted) {
        this.isReachable = false;
        this.dispatchEvent(new Event("unreachable"));
      }
      throw new Unreachable();
    } finally {
      clearTimeout(timer);
    }
    const time = Number(answer.headers.get("EntitlementSync-Time"));
    if (time > 0) this.#clockOffset = time - Date.now();
    this.isReachable = true;
    this.dispatchEvent(new Event("reached"));
    if (answer.ok || expected.includes(answer.status)) return answer;
    throw await refusal(answer);
  }

  // The stored session.

  #stored() { return parsed(localStorage.getItem(storageKey)); }

  #keep({ access_token, refresh_token, account, incarnation }) {
    this.#accessToken = access_token;
    this.#refreshCount += 1;
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

  #endedByServer() {
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

/** Reads the body. The connection may break after the head has arrived. */
async function body(answer) {
  try { return await answer.arrayBuffer(); } catch { throw new Unreachable(); }
}

async function decoded(answer) {
  const bytes = await body(answer);
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new Refusal(502, { detail: "the answer is not JSON" }, null);
  }
}

async function refusal(answer) {
  let problem = {};
  try { problem = await answer.json(); } catch { /* A proxy has answered: only the status is known. */ }
  const retryAfter = Number(answer.headers.get("Retry-After"));
  return new Refusal(answer.status, problem ?? {}, retryAfter > 0 ? retryAfter : null);
}
