// What an account has, and what it buys and spends. No view is in here.
//
// What holds is the server's to say (`GET /v1/entitlements`). What this page writes are facts: purchases and spends, as
// records of the account's ledger, under a condition that nobody else wrote in between.

import { SessionOver, Unreachable } from "./api.js";
import { ChangeStream } from "./events.js";
import { Ledger, nextTime, purchaseKey, purchaseRecord, recordingRecord, spendKey, spendRecord, termsOf }
  from "./ledger.js";

const store = "reported";
const environment = "production";
const replicaKey = "insomniowl.replica";
const attempts = 12;
const hour = 3_600_000;

/** A write was sent, and nobody can say yet whether it was done. Nothing is kept of it here. */
export class Unsettled extends Error {
  constructor() {
    super("The server stopped answering. As soon as it is back, this page shows whether it was done.");
  }
}

/** The account was erased, here or on another device. */
export class Erased extends Error {
  constructor() { super("This account was erased."); }
}

/** A name as one level of a key. */
const escaped = (name) => name.replaceAll("%", "%25").replaceAll("/", "%2F");

/** 16 bytes that name this browser among the devices of its owner. */
function replica() {
  const stored = localStorage.getItem(replicaKey);
  if (/^[0-9a-f]{32}$/.test(stored ?? "")) return Uint8Array.from(stored.match(/../g), (pair) => parseInt(pair, 16));
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  localStorage.setItem(replicaKey, Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(""));
  return bytes;
}

/** A random UUID; `crypto.randomUUID` is there in secure contexts only. */
function randomUUID() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

const pauseOf = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

/** One account's shop. Events: `change` (the snapshot is new), `erased`. */
export class Shop extends EventTarget {
  #api;
  #prefix;
  #stream;
  #entry = null;
  #isBehind = true;
  #isChanged = false;
  #reading = null;
  #isAsked = false;
  /** Settled when no write is under way. */
  #written = Promise.resolve();
  #timer = 0;
  #isClosed = false;
  #following = null;

  /** The catalogue of the server. */
  catalog = null;
  /** What `GET /v1/entitlements` said last; null before it did. */
  snapshot = null;

  constructor(api) {
    super();
    this.#api = api;
    const { account, incarnation } = api.session;
    this.#prefix = `accounts/${escaped(account)}/${escaped(incarnation)}/`;
    this.#stream = new ChangeStream(api, {
      onChange: (change) => this.#hear(change),
      onOpen: (isResumed) => { if (!isResumed || this.#isBehind) this.#readQuietly(); },
    });
  }

  /** Reads what is sold and what holds, and follows it from then on. May be tried again. */
  async open() {
    this.#following ??= this.#stream.run();
    const [catalog] = await Promise.all([this.#api.catalog(), this.refresh()]);
    this.catalog = catalog;
    this.dispatchEvent(new Event("change"));
  }

  close() {
    this.#isClosed = true;
    this.#stream.stop();
    clearTimeout(this.#timer);
  }

  get #ledgerKey() { return `${this.#prefix}ledger`; }

  // What holds.

  /** Reads what holds. Whoever asks meanwhile gets what is read after that. */
  async refresh() {
    if (this.#reading) {
      this.#isAsked = true;
      return this.#reading;
    }
    this.#reading = this.#readAll().finally(() => { this.#reading = null; });
    return this.#reading;
  }

  async #readAll() {
    do {
      this.#isAsked = false;
      this.#isBehind = false;
      const isChanged = this.#isChanged;
      this.#isChanged = false;
      try {
        const look = isChanged ? this.#look() : null;
        // Its failure is heard of below; it may come before that.
        look?.catch(() => {});
        const snapshot = await this.#api.entitlements();
        if (this.#isClosed) return;
        this.snapshot = snapshot;
        // What holds is shown without waiting for the ledger.
        this.dispatchEvent(new Event("change"));
        await look;
      } catch (error) {
        this.#isBehind = true;
        this.#isChanged ||= isChanged;
        if (error.status !== 410) throw error;
        throw this.#erased();
      }
    } while (this.#isAsked);
    if (!this.#isClosed) this.#schedule();
  }

  /**
   * Reads the ledger that somebody else has changed: the next write need not be refused first, and an erasure shows in
   * it before anywhere else.
   */
  async #look() {
    const found = await this.#api.read(this.#ledgerKey, this.#entry?.tag);
    if (found === "unchanged") return;
    this.#entry = this.#decoded(found);
    if (this.#entry.ledger.isErased) throw this.#erased();
  }

  #erased() {
    if (!this.#isClosed) this.dispatchEvent(new Event("erased"));
    return new Erased();
  }

  /** For those who cannot wait for it: the views of the page tell of a server that does not answer. */
  async #readQuietly() {
    try { await this.refresh(); } catch { /* The next event, or the next press of a button, tries again. */ }
  }

  async #hear({ key, version }) {
    // The event of a write may be here before its answer, which says whose it is.
    await Promise.race([this.#written, pauseOf(500)]);
    if (this.#isClosed) return;
    // What this page has written itself, it knows.
    if (key === this.#ledgerKey && version !== undefined && this.#entry?.tag === `"${version}"`) return;
    if (key === this.#ledgerKey) this.#isChanged = true;
    if (key === this.#ledgerKey || key === `${this.#prefix}decisions`) this.#readQuietly();
  }

  /** Reads again when a period ends, and once an hour for the days that are left. */
  #schedule() {
    clearTimeout(this.#timer);
    const now = this.#api.now();
    const ends = this.snapshot.subscriptions.flatMap((subscription) => subscription.periods)
      .flatMap((period) => [Date.parse(period.start), Date.parse(period.end)])
      .filter((instant) => instant > now);
    const pause = Math.min(hour, ...ends.map((instant) => instant - now + 50));
    this.#timer = setTimeout(() => this.#readQuietly(), pause);
  }

  /** The subscription of `group`, and what is left of it. */
  subscription(group) { return this.snapshot?.subscriptions.find((known) => known.group === group) ?? null; }

  isOwned(product) { return this.snapshot?.owned.includes(product) ?? false; }

  balance(product) { return this.snapshot?.balances[product] ?? 0; }

  /** Whether units that are bought here could be used here: otherwise they stay on the device that buys them. */
  get sharesUnits() { return this.catalog?.policy?.consumables === "shared"; }

  product(id) { return this.catalog.products.find((product) => product.id === id); }

  // What is done.

  /** Buys `product`, and gives what holds then. */
  async buy(product) {
    const transaction = { store, environment, id: randomUUID() };
    const terms = termsOf(product, this.catalog);
    await this.#append(purchaseKey(transaction), (ledger) => {
      const now = this.#api.now();
      const time = nextTime(ledger.latestTime, now);
      const periods = terms.kind === "nonRenewing" ? this.subscription(terms.group)?.periods ?? [] : [];
      const knownEnd = periods.length > 0 ? Math.max(...periods.map((period) => Date.parse(period.end))) : null;
      return [
        purchaseRecord({ transaction, product: product.id, terms, date: now, quantity: 1, time }),
        recordingRecord({ transaction, replica: replica(), recordedAt: now, knownEnd, time }),
      ];
    });
    await this.#readAcknowledged();
  }

  /** Uses an entitlement once. Gives {granted: access}, {spent: product, remaining} or {denied: access}. */
  async use(entitlement) {
    if (this.#isBehind || this.#isOver(entitlement)) await this.refresh();
    const access = () => this.snapshot.access[entitlement] ?? { granted: false, reason: "notPurchased" };
    const units = () => /^units:(.+)$/s.exec(access().granted ? access().because : "")?.[1] ?? null;
    const product = units();
    if (!product) return access().granted ? { granted: access() } : { denied: access() };
    const id = randomUUID();
    const isSpent = await this.#append(spendKey(id), async (ledger) => {
      if (this.#isBehind) await this.refresh();
      // Another device may have spent the last one, or bought a period, in between.
      if (units() !== product) return null;
      const date = this.#api.now();
      const time = nextTime(ledger.latestTime, date);
      return [spendRecord({ id, product, units: 1, replica: replica(), date, environment, time })];
    });
    if (!isSpent) return access().granted ? { granted: access() } : { denied: access() };
    await this.#readAcknowledged();
    return { spent: product, remaining: this.balance(product) };
  }

  /** Reads everything anew, and gives {purchases: how many the ledger holds, isNew: whether this page did not know}. */
  async restore() {
    const before = JSON.stringify(this.#holdings());
    const found = await this.#api.read(this.#ledgerKey);
    this.#entry = this.#decoded(found);
    await this.refresh();
    return { purchases: this.#entry.ledger.purchaseCount, isNew: before !== JSON.stringify(this.#holdings()) };
  }

  #holdings() {
    const { subscriptions, owned, balances } = this.snapshot ?? {};
    return [subscriptions?.map(({ group, periods }) => [group, periods]), owned, balances];
  }

  #isOver(entitlement) {
    const until = this.snapshot?.access[entitlement]?.until;
    return until ? Date.parse(until) <= this.#api.now() : false;
  }

  /** What is acknowledged is done, even if what holds now cannot be read at once. */
  async #readAcknowledged() {
    try {
      await this.refresh();
    } catch (error) {
      if (error instanceof SessionOver || error instanceof Erased) throw error;
    }
  }

  /**
   * Adds records to the ledger: those that `make` gives for the ledger as it is, null for none. Whoever wrote in
   * between is merged with. A write that got no answer is looked up under `key`; and where nobody can be asked,
   * that is said.
   */
  async #append(key, make) {
    // Whether a write was sent whose outcome is not known.
    let isOpen = false;
    for (let attempt = 0; attempt < attempts; attempt += 1) {
      try {
        this.#entry ??= this.#decoded(await this.#api.read(this.#ledgerKey));
        const { ledger, tag } = this.#entry;
        if (ledger.isErased) throw this.#erased();
        if (ledger.has(key)) return true;
        const records = await make(ledger);
        if (!records) return false;
        const next = ledger.joined(new Ledger(records));
        this.#isBehind = true;
        isOpen = true;
        const writing = this.#api.write(this.#ledgerKey, next.encoded(), tag);
        this.#written = writing.then(() => {}, () => {});
        const answer = await writing;
        isOpen = false;
        this.#entry = "conflict" in answer ? this.#decoded(answer.conflict) : { ledger: next, tag: answer.tag };
        if (!("conflict" in answer)) return true;
      } catch (error) {
        if (!isOpen || !(error instanceof Unreachable || error.isUnsettled)) throw error;
        this.#entry = null;
        if (attempt >= 5) throw new Unsettled();
        await pauseOf(250 * 2 ** attempt);
      }
    }
    throw new Error("Your other devices write all the time. Please try again.");
  }

  #decoded(entry) {
    return entry ? { ledger: Ledger.decode(entry.bytes), tag: entry.tag } : { ledger: new Ledger(), tag: null };
  }
}
