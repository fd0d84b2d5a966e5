// The purchases of one account for the views: what the client knows of them, purchases, and uses. Contains no view.

import { randomID, ShopError } from "./entitlement-sync.js";
import { purchasesOf } from "./history.js";

const environment = "production";
const attempts = 5;
/** The time without an answer after which the data of the last visit is shown. */
const slowAnswer = 3_000;

const pauseOf = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

/** The key of the purchases that this browser keeps for visits without a connection. The client keeps the rest. */
const keptKey = "insomniowl.lastKnown";

/** The purchases of the last visit to the account with `incarnation`; null for none. */
function keptPurchases(incarnation) {
  try {
    const kept = JSON.parse(localStorage.getItem(keptKey) ?? "null");
    return kept?.incarnation === incarnation ? kept.purchases ?? null : null;
  } catch { return null; }
}

function keepPurchases(incarnation, purchases) {
  try { localStorage.setItem(keptKey, JSON.stringify({ incarnation, purchases })); }
  catch { /* The storage is full or disabled: the page works without it. */ }
}

/** A purchase whose outcome is unknown because the server stopped answering. The client sends it again. */
export class OutcomeUnknown extends Error {
  constructor() {
    super("The server stopped answering. Once it is back, this page shows whether it has done what you asked for.");
  }
}

/** One account's shop. Events: `change` (new data to show). */
export class Shop extends EventTarget {
  #client;
  #incarnation;
  #overview = null;
  #clockOffset = 0;
  #readAt = null;
  #timer = 0;
  #isClosed = false;
  /** The number of calls under way. The page shows their outcome when they are done. */
  #calls = 0;

  /** The server's catalogue; null until it is known. */
  catalog = null;
  /** The last answer to `GET /v1/entitlements`; null until it is known. */
  snapshot = null;
  /** The purchases, newest first (see history.js); null until they are known. The shop works without them. */
  purchases = null;
  /** True once the entitlements have been read from the server. */
  isCurrent = false;
  /** True while the data of an earlier visit is shown. */
  isStale = false;

  constructor(client, incarnation) {
    super();
    [this.#client, this.#incarnation] = [client, incarnation];
    this.purchases = keptPurchases(incarnation);
  }

  /** Shows an overview of the client. One of an earlier visit is shown after a failure, or if the server is slow. */
  async update(overview) {
    clearTimeout(this.#timer);
    this.#clockOffset = await this.#client.now() - Date.now();
    if (this.#calls > 0) return undefined;
    if (overview.isCurrent || overview.failure || this.isCurrent) return this.#show(overview);
    this.#timer = setTimeout(() => this.#show(overview), slowAnswer);
    return undefined;
  }

  #show(overview) {
    if (this.#isClosed) return;
    this.#overview = overview;
    [this.catalog, this.snapshot] = [overview.catalog, overview.snapshot];
    this.isCurrent ||= overview.isCurrent;
    this.isStale = overview.snapshot !== null && !this.isCurrent;
    this.dispatchEvent(new Event("change"));
    if (overview.isCurrent) this.#readPurchases();
  }

  /** Reads the purchases for the history, after each change of the entitlements. The shop works without them. */
  async #readPurchases() {
    const { at } = this.snapshot;
    if (this.#readAt === at) return;
    this.#readAt = at;
    try {
      const purchases = purchasesOf(await this.#client.export(), this.catalog);
      if (this.#isClosed || this.#readAt !== at) return;
      this.purchases = purchases;
      keepPurchases(this.#incarnation, purchases);
      this.dispatchEvent(new Event("change"));
    } catch (error) {
      if (!(error instanceof ShopError)) throw error;
      this.#readAt = null;
    }
  }

  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    localStorage.removeItem(keptKey);
  }

  // Entitlements.

  /** The subscription of `group`; null if there has been none. */
  subscription(group) {
    const known = this.snapshot?.subscriptions.find((each) => each.group === group);
    if (!known) return null;
    // A snapshot of an earlier visit may be older than the end of its periods.
    return known.active && Date.parse(known.expires) <= this.now() ? { ...known, active: false } : known;
  }

  /** The access to `entitlement`, as the client decides it. */
  access(entitlement) {
    return this.#overview?.access[entitlement] ?? { granted: false, reason: "notPurchased", until: null };
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
  now() { return Date.now() + this.#clockOffset; }

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

  // Purchases and uses.

  /** Buys `product`. Returns true if the snapshot includes the purchase, false if it could not be read yet. */
  async buy(product) {
    return this.#call(async () => {
      // This page sells nothing without the server.
      await this.#client.refresh();
      let { recorded, failure } = await this.#client.report({ product: product.id, transaction: randomID() });
      for (let attempt = 0; !recorded; attempt += 1) {
        if (!failure.isTransient) throw failure;
        if (attempt === attempts) throw new OutcomeUnknown();
        await pauseOf(250 * 2 ** attempt);
        failure = await this.#client.refresh().then(() => null, (error) => error);
        recorded = await this.#client.waiting() === 0;
      }
      return failure === null;
    });
  }

  /** Uses an entitlement once. Returns {granted}, {spent, remaining} or {denied}. */
  async use(entitlement) {
    const { granted, spent, remaining } = await this.#call(async () => {
      // A subscription works without the server. Units do not: another device may have spent them.
      if (this.access(entitlement).units !== undefined) await this.#client.refresh();
      return this.#client.use(entitlement);
    });
    if (!granted) return { denied: this.access(entitlement) };
    return spent === 1 ? { spent: true, remaining: remaining ?? null } : { granted: true };
  }

  /** Reads everything again. Returns {purchases: their number, isNew: true if the page did not know some of them}. */
  async restore() {
    const before = JSON.stringify(this.#holdings());
    const { ledger } = await this.#call(async () => {
      await this.#client.restore();
      return this.#client.export();
    });
    const count = ledger.filter(({ kind }) => kind === "purchase").length;
    return { purchases: count, isNew: before !== JSON.stringify(this.#holdings()) };
  }

  /** Runs a call, and shows what the client has read before the page speaks of it. */
  async #call(body) {
    this.#calls += 1;
    try {
      return await body();
    } finally {
      this.#calls -= 1;
      await this.update(await this.#client.overview());
    }
  }

  #holdings() {
    const { subscriptions, owned, balances } = this.snapshot ?? {};
    return [subscriptions?.map(({ group, periods }) => [group, periods]), owned, balances];
  }
}

/** An ISO 8601 duration of whole numbers, as calendar months, days and seconds. */
export function durationOf(text) {
  const match = /^P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$/.exec(text);
  if (!match) throw new Error(`"${text}" is not a duration`);
  const [years, months, weeks, days, hours, minutes, seconds] = match.slice(1).map((part) => Number(part ?? 0));
  return {
    months: years * 12 + months,
    days: weeks * 7 + days,
    seconds: hours * 3600 + minutes * 60 + seconds,
  };
}
