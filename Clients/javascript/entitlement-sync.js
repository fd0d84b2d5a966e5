// A client of `syncd serve` for browsers, Node.js 20 and workers. entitlement-sync.d.ts documents the calls.
// All data of a shop is one document in a storage, which tabs and processes share. Nothing of it is cached in memory,
// so every call sees the changes of all of them. Items that the server has not answered wait in the document's outbox.

const appIsWrong = "The shop of this app does not work. Please look for an update of the app.";
const messages = {
  catalog: appIsWrong, noServer: appIsWrong,
  offline: "There is no connection to the server. Purchases on this device are safe. Try again later.",
  wrongPassword: "The name or the password is wrong. Check both, and try again.",
  tooManyAttempts: "There were too many attempts. Wait a few minutes, and try again.",
  nameTaken: "This name is taken. Choose another name, or log in if the account is yours.",
  notAllowed: "The server does not allow this. Ask the app's support.",
  untrusted: "The connection to the server is not secure. Check the date of this device, and the network.",
  cancelled: "This was cancelled.", logInNeeded: "You are not logged in. Log in, and try again.",
  noToken: "Your log-in could not be checked. Try again later, or log in again.",
  accountDeleted: "This account was deleted. Log in to another account, or create one.",
  full: "This device has no free space. Free some space, and try again. Nothing was lost.",
  outboxFull: "Too much waits for the server. Connect to the internet so that it can be sent, and try again.",
  storage: "This device cannot read or save your purchases. Restart the app, or ask the app's support.",
  damaged: "The purchases on this device are damaged. Install the app again, then restore your purchases.",
  newerVersion: "A newer version of this app has saved your purchases. Update the app.",
  unverified: "Your purchase is not confirmed yet. Connect to the internet, and restore your purchases.",
  ownedByAnotherAccount: "Your purchase belongs to another account. Log in to that account.",
  refusedByServer: "Your purchase could not be confirmed. Ask the app's support.",
};

/** An error of a shop: `kind` is for the app, `message` for the user, `description` for a log. */
export class ShopError extends Error {
  constructor(kind, description, { isTransient = false, retryAfter = null, status = null, code = null, cause } = {}) {
    super(messageOf(kind, description, isTransient), { cause });
    Object.assign(this, { name: "ShopError", kind, description, isTransient, retryAfter, status, code });
  }
}

function messageOf(kind, description, isTransient) {
  if (kind === "invalid") return `This is not allowed: ${description}. Change it, and try again.`;
  if (kind === "storage" && isTransient) return "This device is busy with your purchases. Try again in a moment.";
  return messages[kind] ?? (isTransient ? "This did not work. Try again later."
    : "This did not work. Please look for an update of the app, or ask the app's support.");
}

const storageFormat = 1;
const [largestOutbox, largestHistory] = [1_000, 100];
/** The most items, and characters of them, in one request (the server accepts 100). A longer item is sent alone. */
const [largestBatch, longestBatch] = [32, 1_000_000];
const [shortestPause, longestPause] = [1_000, 30_000];
/** The server sends a heartbeat every 15 seconds; after three missed ones the connection counts as lost. */
const [longestSilence, hour] = [50_000, 3_600_000];

export class Shop {
  #server; #storage; #roots; #environment; #fetch; #wall; #timeout; #newToken; #stopWatching;
  #observers = new Set(); #follower = null; #changeCount = 0; #isClosed = false; #hasAskedForCatalog = false;
  /** A sync that waits for its turn, which all callers share. */
  #nextSync = null;
  /** True after a sync, until one fails. */
  #isCurrent = false;
  /** The last grant of the storage that was verified, with its payload. */
  #verified = { grant: null, payload: null };
  /** The latest time that this process has seen, and the monotonic clock at that moment. */
  #seen = { time: -Infinity, at: 0 };
  /** Makes the follower look at the session again. */
  #wake = () => {};
  /** The failure of the last sync; null after a success. */
  failure = null;

  /** Opens the purchases of this device. Sends no request. `fetch`, `clock` and `timeout` are for tests. */
  static async open({
    server, storage = browserStorage(), trust = null, environment = "production", token = null,
    fetch = (...options) => globalThis.fetch(...options), clock = Date.now, timeout = 15_000,
  }) {
    const shop = new Shop();
    [shop.#server, shop.#storage, shop.#environment, shop.#newToken] = [addressOf(server), storage, environment, token];
    [shop.#fetch, shop.#wall, shop.#timeout] = [fetch, clock, timeout];
    shop.#roots = trust === null ? null : await importedRoots(trust.roots);
    await shop.#read();
    shop.#stopWatching = storage.watch(() => shop.#changed());
    return shop;
  }

  close() {
    this.#isClosed = true;
    this.#stopWatching();
    this.#changed();
    this.#follower?.abort();
  }

  // Accounts
  async account() {
    const { session } = await this.#read();
    return session && { name: session.account, incarnation: session.incarnation };
  }

  async signUp(name, password, options) {
    const answer = await this.#send("POST", "/v1/accounts", { json: { name, password } });
    const made = answered(answer, ["account"], "nameTaken");
    await this.#enter(made, options);
    // The codes are shown only once, so a failed sync must not hide them.
    await failureOf(this.#sync());
    return made.recovery_codes ?? [];
  }

  async logIn(nameOrToken, passwordOrOptions, options) {
    if (typeof nameOrToken === "function") return this.#logInWithToken(nameOrToken, passwordOrOptions);
    return this.#begin({ grant_type: "password", username: nameOrToken, password: passwordOrOptions }, options);
  }

  async resetPassword(username, recovery_code, new_password, options) {
    const json = { grant_type: "urn:entitlementsync:recovery-code", username, recovery_code, new_password };
    return this.#begin(json, options);
  }

  async #begin(json, options) {
    await this.#enter(answered(await this.#send("POST", "/v1/sessions", { json }), ["account"]), options);
    await this.#sync();
  }

  async #logInWithToken(issuer, options) {
    const access_token = await tokenOf(issuer);
    const answer = await this.#send("GET", "/v1/accounts/self", { token: access_token });
    const { name: account, incarnation } = answered(answer, ["name"]);
    this.#newToken = issuer;
    await this.#enter({ account, incarnation, access_token, refresh_token: null }, options);
    await this.#sync();
  }

  async logOut({ everywhere = false } = {}) {
    const { session, outbox } = await this.#read();
    if (session === null) throw new ShopError("logInNeeded", "no account is logged in");
    if (outbox.some((entry) => isOf(entry, session))) await failureOf(this.#sync());
    if (everywhere) await this.#authorized("DELETE", "/v1/sessions?everywhere=true");
    else if (session.access_token) await failureOf(this.#authorized("DELETE", "/v1/sessions"));
    await this.#leave(session);
  }

  async changePassword(password, new_password) {
    await this.#authorized("PUT", "/v1/accounts/self/password", { json: { password, new_password } });
  }

  async renewRecoveryCodes(password) {
    return (await this.#authorized("POST", "/v1/accounts/self/recovery-codes", { json: { password } })).recovery_codes;
  }

  async decideDevice(user_code, approve, password) {
    const json = { user_code, approve, ...(approve && { password }) };
    await this.#authorized("POST", "/v1/devices/approvals", { json });
  }

  async deleteAccount(password) {
    let { session } = await this.#read();
    if (session?.access_token && session.refresh_token === null) {
      // The server requires a token of the issuer that is at most five minutes old. It may be for another user.
      if (this.#newToken) session = await this.#renewed(session);
      const self = await this.#authorized("GET", "/v1/accounts/self", { session, members: ["incarnation"] });
      if (self.incarnation !== session.incarnation) throw ofAnother();
    }
    await this.#authorized("POST", "/v1/accounts/self/erasure", { session, json: password && { password } });
    await this.#leave(session, { isErased: true });
  }

  // Purchases
  async report(item) {
    const [result] = await this.#record([{ kind: "reported", ...item }]);
    if (result.problem) throw refusal(result.problem);
    return result;
  }

  async sendEvidence(items) { return this.#record(items); }
  async refresh() { await this.#sync(); }
  async waiting() { return (await this.#read()).outbox.length; }

  async restore(evidence = []) {
    await this.#sync();
    if (evidence.length === 0) return [];
    const results = await this.#post(evidence, (await this.#read()).session, { restore: true });
    await this.#sync();
    return results;
  }

  async access(entitlement) { return (await this.#decisions()).decide(entitlement); }

  async use(entitlement, { id = randomID() } = {}) {
    let taken = await this.#take(entitlement, id);
    // If it is denied, another device may have bought meanwhile. A spend is sent.
    let failure = taken.spent === 0 ? null : await failureOf(this.#sync());
    if (!taken.granted) {
      taken = await this.#take(entitlement, id);
      if (taken.spent === 1) failure = await failureOf(this.#sync());
    }
    if (taken.spent !== 1) return { ...taken, failure };
    const refused = (await this.#read()).refusals.find((each) => each.id === id);
    if (refused?.problem.code === "none-left") return { granted: false, reason: "usedUp", until: null };
    if (refused) throw refusal(refused.problem);
    const { granted, units } = await this.access(entitlement);
    return { granted: true, spent: 1, remaining: granted && units !== undefined ? units : granted ? null : 0, failure };
  }

  async overview() {
    const { state: { session, home, catalog, outbox, refusals }, decide } = await this.#decisions();
    const snapshot = home?.snapshot ?? null;
    const access = Object.fromEntries(Object.keys(snapshot?.access ?? {}).map((each) => [each, decide(each)]));
    return {
      account: session?.account ?? null, isCurrent: snapshot !== null && this.#isCurrent, snapshot, access, catalog,
      waiting: outbox.length, refusals, failure: this.failure,
    };
  }

  async *observe({ signal } = {}) {
    let [isDirty, wake] = [true, () => {}];
    const notify = () => { isDirty = true; wake(); };
    signal?.addEventListener("abort", notify, { once: true });
    this.#observers.add(notify);
    if (this.#follower === null) {
      this.#follower = new AbortController();
      this.#follow(this.#follower.signal).catch((error) => this.#settle(error));
    }
    try {
      for (let shown = null; ;) {
        if (!isDirty) await new Promise((resolve) => { wake = resolve; });
        isDirty = false;
        const overview = await this.overview();
        if (signal?.aborted || this.#isClosed) return;
        const text = JSON.stringify({ ...overview, failure: overview.failure?.description });
        if (text === shown) continue;
        shown = text;
        yield overview;
      }
    } finally {
      signal?.removeEventListener("abort", notify);
      this.#observers.delete(notify);
      if (this.#observers.size === 0) {
        this.#follower?.abort();
        this.#follower = null;
      }
    }
  }

  async catalog() {
    const failure = await failureOf(this.#readCatalog());
    const { catalog } = await this.#read();
    if (catalog === null) throw failure ?? new ShopError("catalog", "the server has no catalogue");
    return catalog;
  }

  async export() { return this.#authorized("GET", "/v1/accounts/self/export"); }
  async now() { return this.#now(await this.#read()); }

  // Decisions
  /** The state, and a function that returns the access to an entitlement now. Stores the time of a denial. */
  async #decisions() {
    const state = await this.#read();
    const [grant, now] = [await this.#grantOf(state), this.#now(state)];
    await this.#remember(state, now);
    return { state, decide: (entitlement) => decision(state, entitlement, now, grant, this.#roots !== null) };
  }

  /** Decides a use, and puts the spend into the outbox if it takes a unit. */
  async #take(entitlement, id) {
    const read = await this.#read();
    const grant = await this.#grantOf(read);
    const taken = await this.#update((state) => {
      if (state.spent.includes(id) || state.outbox.some((entry) => entry.id === id)) return { granted: true, spent: 1 };
      if (state.home?.grant !== read.home?.grant || state.session?.login !== read.session?.login) return null;
      const now = this.#now(state);
      state.clock.mark = Math.max(state.clock.mark, now);
      const access = decision(state, entitlement, now, grant, this.#roots !== null);
      if (!access.granted) return access;
      if (access.units === undefined) return { ...access, spent: 0 };
      enqueue(state, { id, item: { kind: "spend", entitlement, id }, source: access.source });
      return { granted: true, spent: 1 };
    });
    // The grant may have been replaced meanwhile.
    return taken ?? this.#take(entitlement, id);
  }

  /** The payload of the stored grant; null if there is none, or trust needs none. */
  async #grantOf({ home, session, device }) {
    if (this.#roots === null || !home?.grant) return null;
    if (this.#verified.grant !== home.grant) {
      this.#verified = { grant: home.grant, payload: await this.#verify(home.grant, session, device) };
    }
    return this.#verified.payload;
  }

  #verify(grant, { account, incarnation }, device) {
    return verifiedGrant(grant, this.#roots, { account, incarnation, device, environment: this.#environment });
  }

  /** The corrected time. It never goes back behind the stored time, nor behind the time that this process has seen. */
  #now({ clock }) {
    const at = performance.now();
    const time = Math.max(clock.mark, this.#wall() + clock.offset, this.#seen.time + at - this.#seen.at);
    this.#seen = { time, at };
    return time;
  }

  /** Stores the time if a period has ended since the stored one, or if more than a minute has passed. */
  async #remember({ home, clock }, now) {
    if (home === null) return;
    const hasEnded = boundaries(home).some((each) => clock.mark < each && each <= now);
    if (!hasEnded && now < clock.mark + 60_000) return;
    await this.#update((state) => { state.clock.mark = Math.max(state.clock.mark, now); });
  }

  // Sync
  /** Sends what waits, and reads the account. Callers share a sync that has not begun. */
  #sync() {
    if (this.#nextSync !== null) return this.#nextSync;
    const run = this.#storage.exclusively("sync", () => {
      this.#nextSync = null;
      return this.#syncAlone();
    });
    this.#nextSync = run;
    run.then(() => this.#settle(null), (error) => {
      if (this.#nextSync === run) this.#nextSync = null;
      if (error.kind !== "cancelled") this.#settle(error);
    });
    return run;
  }

  #settle(failure) {
    [this.failure, this.#isCurrent] = [failure, failure === null];
    for (const notify of this.#observers) notify();
  }

  async #syncAlone() {
    const { session, device, home } = await this.#read();
    if (session === null) throw new ShopError("logInNeeded", "no account is logged in");
    await this.#flush();
    const query = `environment=${encodeURIComponent(this.#environment)}`;
    const [sent, clock] = [this.#wall(), {}];
    const [snapshot, signed] = await Promise.all([
      this.#authorized("GET", `/v1/entitlements?${query}`, { session, members: ["access", "account"], clock }),
      this.#roots && this.#authorized("GET", `/v1/grants?device=${device}&${query}`, { session, members: ["grant"] }),
      this.#hasAskedForCatalog ? null : this.#readCatalog(),
    ]);
    if (snapshot.account !== session.account) throw ofAnother();
    const payload = signed && await this.#verify(signed.grant, session, device);
    // An earlier grant that is sent again must not set the clock back.
    if (payload && payload.iat < (home?.issued ?? 0)) refuse("time", "it is older than the last one");
    const time = Math.max(clock.time || 0, (payload?.iat ?? 0) * 1000);
    await this.#update((state) => {
      if (state.session?.login !== session.login) throw switched();
      state.home = {
        snapshot, grant: signed?.grant ?? null, issued: payload?.iat ?? null,
        renewal: payload && (payload.iat + payload.exp) * 500, expires: payload && payload.exp * 1000,
      };
      if (time > 0) {
        // The answer is from a moment between the two: access never ends late, and no report has a date in the future.
        state.clock = { offset: time - sent, mark: time, slack: Math.max(0, this.#wall() - sent) };
        this.#seen = { time: -Infinity, at: 0 };
      }
    });
  }

  async #readCatalog() {
    const answer = await this.#send("GET", "/v1/catalog");
    this.#hasAskedForCatalog = true;
    // A server without a catalogue derives nothing, and its other answers say so.
    if (answer.status === 404) return;
    const catalog = answered(answer, ["products", "entitlements"]);
    await this.#update((state) => { state.catalog = catalog; });
  }

  // The outbox
  /** Puts items into the outbox, and sends it. Returns a result for each. */
  async #record(items) {
    const entries = items.map((item) => ({ id: randomID(), item }));
    const session = await this.#update((state) => {
      // The date is that of the report, not of its delivery. Without the server's time the server dates it.
      const { mark, slack } = state.clock;
      const date = mark > 0 ? new Date(this.#now(state) - slack).toISOString() : undefined;
      for (const { id, item } of entries) {
        const isDated = item.kind === "reported" && item.date === undefined;
        enqueue(state, { id, isDated, item: isDated ? { ...item, date } : item });
      }
      return state.session;
    });
    const failure = session === null ? null : await failureOf(this.#sync());
    if (failure?.kind === "accountDeleted") throw failure;
    const { outbox, refusals } = await this.#read();
    return entries.map(({ id }) => {
      const waiting = outbox.find((entry) => entry.id === id);
      if (waiting) return { recorded: false, failure: waiting.problem ? refusal(waiting.problem) : failure };
      const refused = refusals.find((each) => each.id === id);
      return refused ? { recorded: false, problem: refused.problem } : { recorded: true, failure };
    });
  }

  /** Sends what waits for the account, in order. The caller holds the lock `sync`, so no other process sends it too. */
  async #flush() {
    const held = new Set();
    for (;;) {
      const { session, outbox } = await this.#read();
      const batch = batchOf(outbox.filter((entry) => session && isOf(entry, session) && !held.has(entry.id)));
      if (batch.length === 0) return;
      const results = await this.#post(batch.map((entry) => entry.item), session);
      await this.#update((state) => {
        for (const [index, { id }] of batch.entries()) {
          const entry = state.outbox.find((each) => each.id === id);
          // The account may have been deleted meanwhile.
          if (entry && !settleEntry(state, entry, results[index])) held.add(id);
        }
      });
    }
  }

  /** Sends items. If they are too much for one request, sends its halves, down to an item that is too long. */
  async #post(evidence, session, options = {}) {
    const json = { evidence, account: { name: session?.account, incarnation: session?.incarnation }, ...options };
    try {
      const { results } = await this.#authorized("POST", "/v1/transactions", { session, json, members: ["results"] });
      if (results.length !== evidence.length) throw notOurs(`an answer of ${results.length} results`);
      return results;
    } catch (error) {
      if (error.status !== 413 && !(error.status === 400 && evidence.length > 100)) throw error;
      if (evidence.length === 1) return [{ problem: { code: "invalid", detail: error.description } }];
      const middle = Math.ceil(evidence.length / 2);
      const first = await this.#post(evidence.slice(0, middle), session, options);
      return [...first, ...await this.#post(evidence.slice(middle), session, options)];
    }
  }

  // Sessions
  /** Stores a new session. With `adopt`, reports of this device without an account move to it. */
  async #enter({ account, incarnation, access_token, refresh_token }, { earlierPurchases = "leaveOnDevice" } = {}) {
    if (!account || !incarnation || !access_token) throw notOurs("an answer without a session");
    await this.#update((state) => {
      if (state.session?.incarnation !== incarnation) [state.home, state.refusals, state.spent] = [null, [], []];
      state.session = { login: randomID(), account, incarnation, access_token, refresh_token, renewals: 0 };
      if (earlierPurchases !== "adopt") return;
      for (const entry of state.outbox) entry.owner ??= incarnation;
    });
  }

  /** Forgets the session, unless another one has begun, and what this device knows of the account. */
  async #leave({ login, incarnation }, { isErased = false } = {}) {
    await this.#update((state) => {
      if (isErased) state.outbox = state.outbox.filter((entry) => entry.owner !== incarnation);
      if (state.session?.login !== login) return;
      [state.session, state.home, state.refusals, state.spent] = [null, null, [], []];
    });
    this.failure = null;
  }

  /** Sends a request of a session, and returns its answer. Throws if another account has logged in meanwhile. */
  async #authorized(method, path, { json, members = [], clock, session = null } = {}) {
    session ??= (await this.#read()).session;
    const answer = await this.#withToken(session, method, path, { json });
    if (clock) clock.time = Number(answer.headers.get("EntitlementSync-Time"));
    if (answer.status === 410 && parsed(answer.text)?.detail) await this.#leave(session, { isErased: true });
    const value = answered(answer, members);
    if ((await this.#read()).session?.login !== session.login) throw switched();
    return value;
  }

  /** Sends a request, once more after a renewal of the token. */
  async #withToken(session, method, path, options) {
    if (!session?.access_token) throw new ShopError("logInNeeded", "no account is logged in, or its session has ended");
    const answer = await this.#send(method, path, { ...options, token: session.access_token });
    if (answer.status !== 401) return answer;
    const renewed = await this.#renewed(session);
    const second = await this.#send(method, path, { ...options, token: renewed.access_token });
    if (second.status === 401) await this.#end(session);
    return second;
  }

  /** Renews the token of a session, once for all calls of all tabs and processes. */
  #renewed(used) {
    return this.#storage.exclusively("session", async () => {
      const { session } = await this.#read();
      if (session?.login !== used.login) throw switched();
      // Two tokens of the same second are equal, so their number is compared.
      if (session.access_token && session.renewals !== used.renewals) return session;
      const { access_token, refresh_token } = session.access_token ? await this.#newTokens(session) : {};
      if (!access_token) return this.#end(session);
      return this.#update((state) => {
        if (state.session?.login !== used.login) throw switched();
        return Object.assign(state.session, { access_token, refresh_token, renewals: state.session.renewals + 1 });
      });
    });
  }

  /** New tokens of a session; none if the server or the issuer has ended it. */
  async #newTokens({ refresh_token }) {
    if (refresh_token === null) return { access_token: this.#newToken && await tokenOf(this.#newToken), refresh_token };
    try {
      const answer = await this.#send("POST", "/v1/sessions", { json: { grant_type: "refresh_token", refresh_token } });
      return answered(answer, ["access_token", "refresh_token"]);
    } catch (error) {
      if (error.code !== "invalid_grant") throw error;
      return {};
    }
  }

  /** Ends a session that the server no longer accepts. Another tab may renew a token of an issuer, so that stays. */
  async #end({ login }) {
    await this.#update(({ session }) => {
      const isOver = session?.login === login && session.refresh_token !== null;
      if (isOver) session.access_token = session.refresh_token = null;
    });
    throw new ShopError("logInNeeded", "the session has ended");
  }

  async #send(method, path, { json, headers = {}, token = null, signal = null } = {}) {
    const content = json && { "Content-Type": "application/json" };
    try {
      const answer = await this.#fetch(this.#server + path, {
        method, headers: { ...headers, ...content, ...(token && { Authorization: `Bearer ${token}` }) },
        body: json && JSON.stringify(json), signal: signal ?? AbortSignal.timeout(this.#timeout),
        cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
      });
      // The connection may break after the head has arrived. The stream of changes is read by its caller.
      if (signal && answer.ok) return answer;
      return { status: answer.status, headers: answer.headers, text: await answer.text() };
    } catch (error) {
      const reason = `${this.#server}: ${error.cause?.message ?? error.message}`;
      // Node.js names the failure of a certificate; browsers do not.
      if (/CERT|UNABLE_TO_/.test(error.cause?.code)) throw new ShopError("untrusted", reason, { cause: error });
      throw offline(reason, { cause: error });
    }
  }

  async #read() { return openedState(await this.#storage.read()); }

  /** Changes the document, and returns what `change(state)` returns. If that throws, nothing is changed. */
  async #update(change) {
    let outcome;
    await this.#storage.update((stored) => {
      const state = openedState(stored);
      outcome = change(state);
      return state;
    });
    this.#changed();
    return outcome;
  }

  #changed() {
    this.#changeCount += 1;
    for (const notify of this.#observers) notify();
    this.#wake();
  }

  /** Follows the changes of the account until `signal`. Connects again after 1 s to 30 s, while the page is visible. */
  async #follow(signal) {
    const wake = () => this.#wake();
    signal.addEventListener("abort", wake);
    globalThis.addEventListener?.("online", wake, { signal });
    globalThis.document?.addEventListener("visibilitychange", wake, { signal });
    let pause = shortestPause;
    while (!signal.aborted) {
      const count = this.#changeCount;
      const { session } = await this.#read();
      if (!session?.access_token || globalThis.document?.hidden) {
        // A change while the session was read wakes nothing.
        if (this.#changeCount === count && !signal.aborted) await this.#sleep();
        continue;
      }
      const began = performance.now();
      const failure = await failureOf(this.#followOnce(session, signal));
      if (signal.aborted) return;
      if (failure?.kind === "cancelled") continue;
      if (failure) this.#settle(failure);
      // A connection that lasted for a while resets the back-off.
      pause = performance.now() - began > longestPause ? shortestPause : Math.min(pause * 2, longestPause);
      await this.#sleep(Math.max((failure?.retryAfter ?? 0) * 1000, pause / 2) * (0.5 + Math.random()));
    }
  }

  /** Follows one connection until it breaks, the session changes or the page is hidden. */
  async #followOnce(session, signal) {
    const connection = new AbortController();
    let [watchdog, boundary] = [0, 0];
    const stop = (error) => connection.abort(error);
    const look = async () => {
      const { session: latest } = await this.#read();
      if (signal.aborted || globalThis.document?.hidden || latest?.login !== session.login) stop(switched());
    };
    this.#wake = () => { look().catch(stop); };
    // The session may have changed since it was read.
    this.#wake();
    const watch = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => stop(offline("the server is silent")), longestSilence);
    };
    const read = async () => {
      clearTimeout(boundary);
      await this.#sync();
      // Reads again when access changes or the grant should be renewed, at the latest after an hour.
      const state = await this.#read();
      const now = this.#now(state);
      const later = state.home ? boundaries(state.home).filter((each) => each > now) : [];
      if (connection.signal.aborted) return;
      boundary = setTimeout(() => read().catch(stop), Math.min(hour, ...later.map((each) => each - now + 50)));
    };
    try {
      watch();
      const options = { headers: { Accept: "text/event-stream" }, signal: connection.signal };
      const answer = await this.#withToken(session, "GET", "/v1/changes", options);
      if (answer.status !== 200) return answered(answer, []);
      // The stream has begun, so no change after this read is missed.
      await read();
      for await (const { type, data } of eventsOf(answer.body, watch)) {
        const isOfLedger = type === "change" && /\/(ledger|decisions)$/.test(parsed(data)?.key);
        if (isOfLedger || type === "expired") read().catch(stop);
      }
      throw offline("the server has closed the connection");
    } catch (error) {
      if (connection.signal.aborted) throw connection.signal.reason;
      throw error instanceof ShopError ? error : offline(`the connection broke: ${error.message}`, { cause: error });
    } finally {
      this.#wake = () => {};
      clearTimeout(watchdog);
      clearTimeout(boundary);
      connection.abort();
    }
  }

  /** Sleeps until `#wake` is called; without `milliseconds` for any time. */
  #sleep(milliseconds = null) {
    return new Promise((resolve) => {
      const timer = milliseconds === null ? 0 : setTimeout(resolve, milliseconds);
      this.#wake = () => { clearTimeout(timer); resolve(); };
    });
  }
}

// State
/** The `ShopError` with which `work` fails; null if it succeeds. */
const failureOf = (work) => work.then(() => null, (error) => {
  if (error instanceof ShopError) return error;
  throw error;
});
const hexadecimal = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
/** 128 random bits in hexadecimal. Unlike `crypto.randomUUID`, this also works on pages without TLS. */
export const randomID = () => hexadecimal(crypto.getRandomValues(new Uint8Array(16)));

/** The document of a storage. Throws if a later version wrote it, or if it is none of ours. */
function openedState(stored) {
  if (stored === null) {
    return {
      format: storageFormat, device: randomID(), session: null, home: null, catalog: null,
      clock: { offset: 0, mark: 0, slack: 0 }, outbox: [], refusals: [], spent: [],
    };
  }
  if (stored.format > storageFormat) throw new ShopError("newerVersion", `the storage has format ${stored.format}`);
  if (stored.format !== storageFormat) throw new ShopError("damaged", "the storage has no format");
  return stored;
}

function enqueue(state, entry) {
  const reason = `${largestOutbox} items wait for the server: connect, then repeat`;
  if (state.outbox.length >= largestOutbox) throw new ShopError("outboxFull", reason, { isTransient: true });
  state.outbox.push({ ...entry, owner: state.session?.incarnation ?? null });
}

const isOf = (entry, session) => entry.owner === session.incarnation;

/** The first entries, as many as fit into one request. */
function batchOf(entries) {
  let length = 0;
  return entries.slice(0, largestBatch)
    .filter(({ item }, index) => (length += JSON.stringify(item).length) <= longestBatch || index === 0);
}

/** Removes an entry that the server has answered from the outbox. False if it should be sent again later. */
function settleEntry(state, entry, { problem, facts, remaining }) {
  if (problem?.code === "contradiction" && entry.isDated) {
    // An earlier report has another date, so this one is sent without a date.
    [entry.isDated, entry.item.date] = [false, undefined];
    return true;
  }
  // The server does not know the kind of the item yet, or lacks a setting or space.
  if (["not-configured", "ledger-full"].includes(problem?.code) || problem?.check === "kind") {
    entry.problem = problem;
    return false;
  }
  const { id, item, source } = entry;
  state.outbox = state.outbox.filter((each) => each !== entry);
  if (problem) state.refusals = [...state.refusals, { id, item, problem }].slice(-largestHistory);
  if (problem || item.kind !== "spend") return true;
  state.spent = [...state.spent, id].slice(-largestHistory);
  for (const access of Object.values(state.home?.snapshot.access ?? {})) {
    if (access.because === source && access.units) access.units = remaining ?? access.units - facts.length;
  }
  return true;
}

/** The instants at which the answer of a decision may change, in milliseconds. */
function boundaries({ snapshot, renewal, expires }) {
  const ends = Object.values(snapshot.access).map(({ granted, until }) => granted && until);
  const periods = (snapshot.subscriptions ?? []).flatMap((group) => group.periods);
  const texts = [...ends, ...periods.flatMap(({ start, end }) => [start, end])];
  return [...texts.filter(Boolean).map((text) => Date.parse(text)), renewal, expires].filter(Boolean);
}

/** The access to an entitlement at `now`. With `isSigned`, `grant`, the payload of a verified grant, limits it. */
function decision(state, entitlement, now, grant, isSigned) {
  const denied = (reason, until = null) =>
    ({ granted: false, reason, until, ...refusalOf(state, entitlement, reason, until) });
  if (state.session === null) return denied("logInNeeded");
  if (state.home === null) return denied("restoreNeeded");
  const known = Object.hasOwn(state.home.snapshot.access, entitlement) ? state.home.snapshot.access[entitlement] : null;
  if (known === null) throw new ShopError("catalog", `the catalogue has no entitlement ${entitlement}: add it`);
  if (!known.granted) {
    const reason = known.reason === "signInNeeded" ? "logInNeeded" : known.reason;
    const denial = denied(reason, known.date ? new Date(known.date) : null);
    return known.detail ? { ...denial, detail: known.detail } : denial;
  }
  let end = known.until ? Date.parse(known.until) : Infinity;
  if (!(now < end)) return denied("expired", new Date(end));
  let { units } = known;
  if (isSigned) {
    if (grant === null) return denied("restoreNeeded");
    const item = Object.hasOwn(grant.entitlements, entitlement) ? grant.entitlements[entitlement] : null;
    end = Math.min(end, item?.until ? Date.parse(item.until) : Infinity);
    // The answer grants more than the server has signed.
    if (item === null || !(now < Math.min(end, grant.exp * 1000))) return denied("unverified");
    // A grant of units never proves access without a limit.
    if (item.units !== undefined) units = Math.min(units ?? item.units, item.units);
  }
  const until = end === Infinity ? null : new Date(end);
  if (units === undefined || units === null) return { granted: true, until, source: known.because };
  units -= state.outbox.filter((entry) => isOf(entry, state.session) && entry.source === known.because).length;
  return units > 0 ? { granted: true, until, units, source: known.because } : denied("usedUp");
}

/** The reason for which a purchase that was reported after `end` does not count, instead of `reason`; else nothing. */
function refusalOf({ catalog, refusals }, entitlement, reason, end) {
  if (!["notPurchased", "expired", "usedUp"].includes(reason)) return {};
  const sources = catalog?.entitlements.find(({ id }) => id === entitlement)?.grantedBy ?? [];
  const products = catalog?.products.filter(({ id, group }) => sources.some((source) =>
    [`product:${id}`, `units:${id}`, `group:${group}`].includes(source) || source.startsWith(`group:${group}@`))) ?? [];
  const refused = refusals.findLast(({ item }) =>
    products.some(({ id }) => id === item.product) && !(end !== null && Date.parse(item.date) <= end));
  const kind = kindsOfRefusals[refused?.problem.code];
  const denial = ["unverified", "ownedByAnotherAccount"].includes(kind) ? kind : "refusedByServer";
  return refused ? { reason: denial, until: null } : {};
}

// Answers
const notOurs = (what) => new ShopError("noServer", `${what} is not from a server of this kind: check the address`);
const offline = (reason, more) => new ShopError("offline", reason, { isTransient: true, ...more });
const ofAnother = () => new ShopError("logInNeeded", "the token is for another account");
const switched = () => new ShopError("cancelled", "another account has logged in, or the account has logged out");

/** A token from the app's function. */
async function tokenOf(issuer) {
  const token = await Promise.resolve().then(issuer).catch((error) => error);
  if (typeof token === "string" && token !== "") return token;
  throw new ShopError("noToken", `the app's function gave no token: ${token}`, { isTransient: true, cause: token });
}

function addressOf(server) {
  try {
    const url = new URL(server, globalThis.location?.href);
    if (["http:", "https:"].includes(url.protocol)) return url.href.replace(/\/$/, "");
  } catch { /* The error below names the address. */ }
  throw new ShopError("noServer", `the address of the server must be https://HOST[:PORT], not ${server}`);
}

/** The value of a JSON text; null for another text. */
function parsed(text) { try { return JSON.parse(text); } catch { return null; } }

/** The value of a successful answer, which must have `members`; undefined for an empty one. Throws other answers. */
function answered({ status, headers, text }, members, conflict = "logInNeeded") {
  if (status === 204) return undefined;
  const [value, isSuccess] = [parsed(text), status >= 200 && status < 300];
  if (isSuccess && members.every((member) => value?.[member] !== undefined)) return value;
  const retryAfter = Number(headers.get("Retry-After")) || null;
  if (isSuccess || typeof value?.detail !== "string") {
    // A proxy may also answer that it is busy.
    const isBusy = [429, 502, 503, 504].includes(status);
    throw isBusy ? offline(`the answer is ${status}`, { retryAfter, status }) : notOurs(`the answer (${status})`);
  }
  const kind = value.error === "invalid_grant" ? "wrongPassword" : { ...kinds, 409: conflict }[status];
  throw new ShopError(kind ?? (status >= 500 ? "offline" : "invalid"), value.detail, {
    isTransient: status >= 500 || status === 429, retryAfter, status, code: value.error ?? value.code ?? null,
  });
}

const kinds = { 401: "logInNeeded", 403: "notAllowed", 404: "other", 410: "accountDeleted", 429: "tooManyAttempts" };
/** Docs/Protocol.md has the same table. */
const kindsOfRefusals = {
  "evidence-required": "unverified", "owned-by-another": "ownedByAnotherAccount", "unknown-product": "catalog",
  "unknown-entitlement": "catalog", invalid: "invalid", contradiction: "invalid", "not-configured": "noServer",
};

const refusal = ({ code, detail }) => new ShopError(kindsOfRefusals[code] ?? "refusedByServer", detail, { code });

/** The events of a stream as `{type, data}`. Calls `onBytes` for each piece. */
async function* eventsOf(body, onBytes) {
  const [reader, decoder] = [body.getReader(), new TextDecoder()];
  for (let text = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    onBytes();
    const events = (text + decoder.decode(value, { stream: true })).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [type, data] = ["event", "data"].map((name) => new RegExp(`^${name}: ?(.*)$`, "m").exec(event)?.[1]);
      yield { type, data };
    }
  }
}

// Grants
const largestGrant = 65_536;
const encoder = new TextEncoder();
const refuse = (check, reason) => { throw new ShopError("noServer", `the grant: ${check}: ${reason}`); };

/** The bytes of base64url without padding, in its only canonical form. */
function decodedBase64(text) {
  const isEncoded = typeof text === "string" && /^[A-Za-z0-9_-]*$/.test(text);
  const plain = isEncoded && text.length % 4 !== 1 ? atob(text.replaceAll("-", "+").replaceAll("_", "/")) : null;
  const again = plain === null ? null : btoa(plain).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  if (again !== text) refuse("format", "a segment is not base64url");
  return Uint8Array.from(plain, (part) => part.charCodeAt(0));
}

const importedKey = async (text) => crypto.subtle.importKey("raw", decodedBase64(text), "Ed25519", false, ["verify"]);

async function importedRoots(roots) {
  if (!globalThis.crypto?.subtle) throw new ShopError("other", "only a secure (https) page can verify signatures");
  if (!roots?.length) throw new ShopError("invalid", "trust needs at least one root key");
  try { return await Promise.all(roots.map(importedKey)); } catch (error) {
    if (error.name === "NotSupportedError") throw new ShopError("other", "this platform lacks Ed25519");
    throw new ShopError("invalid", `root keys must be 32 bytes in base64url, not ${roots}`, { cause: error });
  }
}

/** The payload of a grant that a server of `roots` has signed for this account and device. Does not check its end. */
async function verifiedGrant(grant, roots, { account, incarnation, device, environment }) {
  const isSigned = (token, key) => {
    const [text, signature] = token.split(/\.(?=[^.]*$)/);
    return crypto.subtle.verify("Ed25519", key, decodedBase64(signature), encoder.encode(text));
  };
  const read = (token, type) => {
    const parts = typeof token === "string" ? token.split(".") : [];
    if (parts.length !== 3) refuse("format", "a statement has three segments");
    const [header, payload] = parts.map((part) => parsed(new TextDecoder().decode(decodedBase64(part))));
    if (!header || !payload) refuse("format", "a segment is not a JSON object");
    if (header.alg !== "EdDSA" || header.crit !== undefined) refuse("algorithm", "it must be EdDSA");
    if (header.typ !== type) refuse("type", `it must be ${type}`);
    return { header, payload };
  };
  if (typeof grant !== "string" || grant.length > largestGrant) refuse("size", `at most ${largestGrant} bytes`);
  const { header, payload } = read(grant, "entitlement-grant+jwt");
  const key = read(header.key, "entitlement-key+jwt").payload;
  const isItem = (item) => (item?.until === null || Date.parse(item?.until) > 0)
    && (item.units === undefined || Number.isSafeInteger(item.units));
  const hasItems = payload.entitlements && Object.values(payload.entitlements).every(isItem);
  const areTimes = [key.iat, key.exp, payload.iat, payload.exp].every(Number.isSafeInteger);
  if (!areTimes || !hasItems) refuse("format", "a member is missing or wrong");
  const checks = await Promise.all(roots.map((root) => isSigned(header.key, root)));
  if (!checks.includes(true)) refuse("root", "no pinned root has signed the key");
  const serverKey = await importedKey(key.x).catch(() => refuse("key", "it must be 32 bytes in base64url"));
  if (!await isSigned(grant, serverKey)) refuse("signature", "the key has not signed the grant");
  const isWithinKey = key.iat <= payload.iat && payload.iat < payload.exp && payload.exp <= key.exp;
  if (payload.iss !== key.iss || !isWithinKey) refuse("key", "the grant does not fit its key");
  const source = encoder.encode(`entitlement-grant+jwt\n${payload.iss}\n${incarnation}\n${account}`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", source));
  if (payload.sub !== hexadecimal(digest)) refuse("account", "it is for another account");
  if (payload.dev !== device) refuse("device", "it is for another device");
  if (payload.env !== environment) refuse("environment", "it is for another environment");
  return payload;
}

// Storages (entitlement-sync.d.ts has their contract)
/** Runs bodies with the same key one after another. */
export class Turns {
  #last = new Map();
  take(key, body) {
    const run = (this.#last.get(key) ?? Promise.resolve()).then(body);
    this.#last.set(key, run.catch(() => {}));
    return run;
  }
}

/** A storage in IndexedDB, for pages and workers. All tabs of an origin share it. */
export function browserStorage(name = "entitlement-sync") {
  const turns = new Turns();
  let opened = null;
  const channel = globalThis.indexedDB && globalThis.BroadcastChannel ? new BroadcastChannel(name) : null;
  const open = () => new Promise((resolve, reject) => {
    const request = globalThis.indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore("state");
    request.onerror = () => reject(request.error);
    request.onsuccess = () => resolve(request.result);
  });
  /** Calls `body(document, store)` in a transaction. What it throws undoes the transaction. */
  const transaction = async (mode, body) => {
    try {
      opened ??= open();
      const made = (await opened).transaction("state", mode, { durability: "strict" });
      return await new Promise((resolve, reject) => {
        let outcome;
        made.oncomplete = () => resolve(outcome);
        made.onabort = () => reject(made.error);
        const request = made.objectStore("state").get("document");
        request.onsuccess = () => {
          try { outcome = body(request.result ?? null, made.objectStore("state")); } catch (error) {
            reject(error);
            made.abort();
          }
        };
      });
    } catch (error) {
      if (error instanceof ShopError) throw error;
      opened = null;
      const kind = error.name === "QuotaExceededError" ? "full" : "storage";
      throw new ShopError(kind, `IndexedDB: ${error.message}`, { cause: error });
    }
  };
  return {
    read: () => transaction("readonly", (document) => document),
    async update(change) {
      await transaction("readwrite", (document, store) => { store.put(change(document), "document"); });
      channel?.postMessage("changed");
    },
    // Locks exist in secure contexts only. Elsewhere two tabs may send an item twice, and it counts once.
    exclusively: (lock, body) => (globalThis.navigator?.locks
      ? navigator.locks.request(`${name}.${lock}`, body) : turns.take(lock, body)),
    watch(listener) {
      channel?.addEventListener("message", listener);
      return () => channel?.removeEventListener("message", listener);
    },
  };
}
