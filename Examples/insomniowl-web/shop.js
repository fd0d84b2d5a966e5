// The purchases of an account: reads them, buys, and uses units. Contains no view.
//
// The server derives the entitlements (`GET /v1/entitlements`). This page writes facts, namely purchases and spends, as
// records of the account's ledger, with a compare-and-swap.

import { Refusal, SessionOver, Unreachable } from "./api.js";
import { ChangeStream } from "./events.js";
import { purchasesOf } from "./history.js";
import {
  Ledger, LedgerFormatError, nextTime, purchaseKey, purchaseRecord, randomUUID, recordingRecord, spendKey, spendRecord,
  termsOf,
} from "./ledger.js";
import { keepLastKnown, lastKnown, replica } from "./storage.js";

const store = "reported";
const environment = "production";
const attempts = 12;
/** The time without an answer after which the data of the last visit is shown. */
const slowAnswer = 3_000;
const hour = 3_600_000;
/** The pause before another attempt to read a document for the history. */
const historyPause = 30_000;

/** A write whose outcome is unknown because the server stopped answering. */
export class OutcomeUnknown extends Error {
  constructor() {
    super("The server stopped answering. Once it is back, this page shows whether it has done what you asked for.");
  }
}

/** The account was erased, here or on another device. */
export class Erased extends Error {
  constructor() { super("This account was erased."); }
}

/** Escapes a name so that it is one level of a key. */
const escaped = (name) => name.replaceAll("%", "%25").replaceAll("/", "%2F");

const pauseOf = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

/** One account's shop. Events: `change` (new data to show), `erased`. */
export class Shop extends EventTarget {
  #api;
  #prefix;
  #incarnation;
  #stream;
  /** The ledger as last read or written: {ledger, tag}. */
  #entry = null;
  /** The server's decisions, as last read: {ledger, tag}. */
  #decisions = null;
  /** True if the snapshot may be out of date. */
  #isBehind = true;
  /** True if another device has changed the ledger. */
  #isLedgerChanged = false;
  #areDecisionsChanged = false;
  #reading = null;
  #mustReadAgain = false;
  /** Resolves when the current write has ended. */
  #written = Promise.resolve();
  #timer = 0;
  #isClosed = false;
  #following = null;

  /** The server's catalogue; null until it is known. */
  catalog = null;
  /** The last answer to `GET /v1/entitlements`; null until it is known. */
  snapshot = null;
  /** The purchases, newest first (see history.js); null until they are known. The shop works without them. */
  purchases = null;
  /** True once the catalogue and the entitlements have been read from the server. */
  isCurrent = false;
  /** True while the data of an earlier visit is shown. */
  isStale = false;

  constructor(api) {
    super();
    this.#api = api;
    const { account, incarnation } = api.session;
    this.#incarnation = incarnation;
    this.#prefix = `accounts/${escaped(account)}/${escaped(incarnation)}/`;
    this.#stream = new ChangeStream(api, {
      onChange: (change) => this.#hear(change),
      onOpen: (isResumed) => { if (!isResumed || this.#isBehind) this.#readQuietly(); },
    });
  }

  /**
   * Reads the catalogue and the entitlements, and follows their changes. May be called again after a failure.
   *
   * If the server is slow or cannot be reached, the data of the last visit is shown. The error is thrown all the same.
   */
  async open() {
    this.#following ??= this.#stream.run();
    const timer = setTimeout(() => this.#showLastKnown(), slowAnswer);
    try {
      await Promise.all([this.#readCatalog(), this.refresh()]);
      this.isCurrent = true;
      this.#keep();
    } catch (error) {
      if (error instanceof Unreachable) this.#showLastKnown();
      throw error;
    } finally {
      clearTimeout(timer);
      if (!this.#isClosed) this.dispatchEvent(new Event("change"));
    }
  }

  async #readCatalog() {
    this.catalog = await this.#api.catalog();
    if (!this.#isClosed) this.dispatchEvent(new Event("change"));
  }

  /** Shows the data of the last visit, as far as nothing newer is known. */
  #showLastKnown() {
    const stored = lastKnown(this.#incarnation);
    if (this.#isClosed || !stored) return;
    this.isStale ||= this.snapshot === null;
    this.catalog ??= stored.catalog;
    this.snapshot ??= stored.snapshot;
    this.purchases ??= stored.purchases;
    this.dispatchEvent(new Event("change"));
  }

  /** Keeps what is known for the next visit without a connection. */
  #keep() {
    if (this.#isClosed || !this.isCurrent) return;
    const { catalog, snapshot } = this;
    const purchases = this.purchases ?? lastKnown(this.#incarnation)?.purchases ?? null;
    keepLastKnown(this.#incarnation, { catalog, snapshot, purchases });
  }

  close() {
    this.#isClosed = true;
    this.#stream.stop();
    clearTimeout(this.#timer);
  }

  get #ledgerKey() { return `${this.#prefix}ledger`; }
  get #decisionsKey() { return `${this.#prefix}decisions`; }

  // Entitlements.

  /** Reads the entitlements and the history. A call during a read waits for another read after it. */
  async refresh() {
    if (this.#reading) {
      this.#mustReadAgain = true;
      return this.#reading;
    }
    this.#reading = this.#readAll().finally(() => { this.#reading = null; });
    return this.#reading;
  }

  async #readAll() {
    do {
      this.#mustReadAgain = false;
      this.#isBehind = false;
      const [isLedgerChanged, areDecisionsChanged] = [this.#isLedgerChanged, this.#areDecisionsChanged];
      this.#isLedgerChanged = this.#areDecisionsChanged = false;
      try {
        const documents = Promise.all([
          isLedgerChanged || !this.#entry
            ? this.#forHistory(this.#readLedger(), () => { this.#isLedgerChanged = true; }) : null,
          areDecisionsChanged || !this.#decisions
            ? this.#forHistory(this.#readDecisions(), () => { this.#areDecisionsChanged = true; }) : null,
        ]);
        // Awaited below; without this line an earlier failure would be reported as unhandled.
        documents.catch(() => {});
        const snapshot = await this.#api.entitlements();
        if (this.#isClosed) return;
        this.snapshot = snapshot;
        this.isStale = false;
        // Entitlements are shown without waiting for the ledger.
        this.dispatchEvent(new Event("change"));
        await documents;
        if (this.#isClosed) return;
        this.#updatePurchases();
      } catch (error) {
        this.#isBehind = true;
        this.#isLedgerChanged ||= isLedgerChanged;
        this.#areDecisionsChanged ||= areDecisionsChanged;
        if (error.status !== 410) throw error;
        throw this.#erased();
      }
    } while (this.#mustReadAgain);
    if (!this.#isClosed) this.#schedule();
  }

  /**
   * Waits for the read of a document. If it fails, the shop continues without a current history. Calls `readLater` if
   * a later read may succeed.
   */
  async #forHistory(reading, readLater) {
    try {
      await reading;
    } catch (error) {
      const isTemporary = error instanceof Unreachable || (error instanceof Refusal && error.status !== 410);
      if (isTemporary) readLater();
      // A LedgerFormatError lasts until a newer version of this page can read the document.
      else if (!(error instanceof LedgerFormatError)) throw error;
    }
  }

  /**
   * Reads the ledger after another device has changed it: the next write then needs no second attempt, and an erasure
   * shows in the ledger first.
   */
  async #readLedger() {
    const known = this.#entry;
    const found = await this.#api.read(this.#ledgerKey, known?.tag);
    // If this page has written meanwhile, its entry is newer than the answer.
    if (found === "unchanged" || this.#entry !== known) return;
    this.#entry = this.#decoded(found);
    if (this.#entry.ledger.isErased) throw this.#erased();
  }

  async #readDecisions() {
    const found = await this.#api.read(this.#decisionsKey, this.#decisions?.tag);
    if (found !== "unchanged") this.#decisions = this.#decoded(found);
  }

  #updatePurchases() {
    if (!this.#entry || !this.#decisions) return;
    this.purchases = purchasesOf(this.#entry.ledger, this.#decisions.ledger);
    this.dispatchEvent(new Event("change"));
    this.#keep();
  }

  #erased() {
    if (!this.#isClosed) this.dispatchEvent(new Event("erased"));
    return new Erased();
  }

  /** Refreshes in the background. The page reports an unreachable server elsewhere. */
  async #readQuietly() {
    try { await this.refresh(); } catch { /* The next event, or the next press of a button, tries again. */ }
  }

  async #hear({ key, version }) {
    // The event of this page's own write may arrive before the answer with its version.
    await Promise.race([this.#written, pauseOf(500)]);
    if (this.#isClosed) return;
    // The version is known if this page wrote it.
    if (key === this.#ledgerKey && version !== undefined && this.#entry?.tag === `"${version}"`) return;
    if (key === this.#ledgerKey) this.#isLedgerChanged = true;
    if (key === this.#decisionsKey) this.#areDecisionsChanged = true;
    if (key === this.#ledgerKey || key === this.#decisionsKey) this.#readQuietly();
  }

  /**
   * Refreshes when a period starts or ends, and every hour for the number of days left; earlier if a document for the
   * history could not be read.
   */
  #schedule() {
    clearTimeout(this.#timer);
    const now = this.#api.now();
    const ends = this.snapshot.subscriptions.flatMap((subscription) => subscription.periods)
      .flatMap((period) => [Date.parse(period.start), Date.parse(period.end)])
      .filter((instant) => instant > now);
    const longest = this.#isLedgerChanged || this.#areDecisionsChanged ? historyPause : hour;
    const pause = Math.min(longest, ...ends.map((instant) => instant - now + 50));
    this.#timer = setTimeout(() => this.#readQuietly(), pause);
  }

  /** The subscription of `group`; null if there has been none. */
  subscription(group) {
    const known = this.snapshot?.subscriptions.find((each) => each.group === group);
    if (!known) return null;
    // A snapshot of an earlier visit may be older than the end of its periods.
    return known.active && Date.parse(known.expires) <= this.#api.now() ? { ...known, active: false } : known;
  }

  /** The access to `entitlement`: {granted: true, until, because, units} or {granted: false, reason, date}. */
  access(entitlement) {
    const known = this.snapshot.access[entitlement] ?? { granted: false, reason: "notPurchased" };
    return known.until && Date.parse(known.until) <= this.#api.now()
      ? { granted: false, reason: "expired", date: known.until } : known;
  }

  /** The time that a purchase grants, {start, end} in milliseconds; null if it grants none. */
  period(purchase) {
    // Periods name only the id of their transaction. A test purchase may have the id of a real one, but grants no time.
    if (purchase.transaction.environment !== environment) return null;
    const periods = this.snapshot.subscriptions.flatMap((subscription) => subscription.periods)
      .filter((period) => period.transactionID === purchase.transaction.id);
    if (periods.length === 0) return null;
    return {
      start: Math.min(...periods.map((period) => Date.parse(period.start))),
      end: Math.max(...periods.map((period) => Date.parse(period.end))),
    };
  }

  /** The current time in milliseconds, by the server's clock. */
  now() { return this.#api.now(); }

  isOwned(product) { return this.snapshot?.owned.includes(product) ?? false; }

  balance(product) { return this.snapshot?.balances[product] ?? 0; }

  /** True if units belong to the account; otherwise they stay on the device that bought them. */
  get sharesUnits() { return this.catalog?.policy?.consumables === "shared"; }

  /** The consumables that this page sells. */
  get packs() {
    return this.sharesUnits
      ? this.catalog.products.filter((product) => product.type === "consumable" && product.forSale !== false) : [];
  }

  /** The product with this id; undefined if the catalogue does not sell it. */
  product(id) { return this.catalog.products.find((product) => product.id === id); }

  // Purchases and spends.

  /** Buys `product`. Returns true if the snapshot includes the purchase, false if it could not be read yet. */
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
    return this.#refreshAfterWrite();
  }

  /**
   * Uses an entitlement once. Returns {granted: access}, {spent: product, remaining} or {denied: access}. `remaining`
   * is null if the balance could not be read yet.
   */
  async use(entitlement) {
    const access = () => this.access(entitlement);
    const units = () => /^units:(.+)$/s.exec(access().granted ? access().because : "")?.[1] ?? null;
    try {
      if (this.#isBehind || this.#isOver(entitlement)) await this.refresh();
    } catch (error) {
      // A subscription works without the server. Units do not: another device may have spent them.
      if (!(error instanceof Unreachable) || !access().granted || units()) throw error;
    }
    const product = units();
    if (!product) return access().granted ? { granted: access() } : { denied: access() };
    const id = randomUUID();
    const isSpent = await this.#append(spendKey(id), async (ledger) => {
      if (this.#isBehind) await this.refresh();
      // Meanwhile another device may have spent the last unit or bought a subscription.
      if (units() !== product) return null;
      const date = this.#api.now();
      const time = nextTime(ledger.latestTime, date);
      return [spendRecord({ id, product, units: 1, replica: replica(), date, environment, time })];
    });
    if (!isSpent) return access().granted ? { granted: access() } : { denied: access() };
    const isRead = await this.#refreshAfterWrite();
    return { spent: product, remaining: isRead ? this.balance(product) : null };
  }

  /** Reads everything again. Returns {purchases: their number, isNew: true if the page did not know some of them}. */
  async restore() {
    const before = JSON.stringify(this.#holdings());
    const known = this.#entry;
    const read = this.#decoded(await this.#api.read(this.#ledgerKey));
    // If this page has written meanwhile, its entry is newer than the answer.
    if (this.#entry === known) this.#entry = read;
    await this.refresh();
    const { ledger } = this.#entry ?? read;
    return { purchases: ledger.purchaseCount, isNew: before !== JSON.stringify(this.#holdings()) };
  }

  #holdings() {
    const { subscriptions, owned, balances } = this.snapshot ?? {};
    return [subscriptions?.map(({ group, periods }) => [group, periods]), owned, balances];
  }

  /** True if the snapshot still grants access that has ended since. */
  #isOver(entitlement) {
    const until = this.snapshot?.access[entitlement]?.until;
    return until ? Date.parse(until) <= this.#api.now() : false;
  }

  /** Refreshes after an acknowledged write, which is done even if this read fails. Returns true if it succeeded. */
  async #refreshAfterWrite() {
    try {
      await this.refresh();
      return true;
    } catch (error) {
      if (error instanceof SessionOver || error instanceof Erased) throw error;
      return false;
    }
  }

  /**
   * Appends the records that `make(ledger)` returns, unless it returns null. Returns true if they are in the ledger.
   *
   * After a conflict, `make` is called again with the merged ledger. After a lost answer, a record with `key` shows
   * that the write was done. Throws OutcomeUnknown if the server stays unreachable after a write was sent.
   */
  async #append(key, make) {
    // True while the outcome of a write is unknown.
    let isOpen = false;
    // Starts with a read: if it fails, nothing was written, whereas the outcome of a failed write is unknown.
    if (!this.#api.isReachable) this.#entry = null;
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
        if (!isOpen || !(error instanceof Unreachable || error.isOutcomeUnknown)) throw error;
        this.#entry = null;
        if (attempt >= 5) throw new OutcomeUnknown();
        await pauseOf(250 * 2 ** attempt);
      }
    }
    throw new Error("Your other devices are making changes at the same time. Please try again.");
  }

  #decoded(entry) {
    return entry ? { ledger: Ledger.decode(entry.bytes), tag: entry.tag } : { ledger: new Ledger(), tag: null };
  }
}
