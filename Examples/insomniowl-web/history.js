// Extracts the purchases of an account from the facts that the server keeps of it.

/** A transaction {store, environment, id} as text, for use as a map key. */
const mapKeyOf = ({ store, environment, id }) => JSON.stringify([store, environment, id]);

/** {refused} or {isTransferred} of a decision; empty if the purchase counts. */
function decisionOf(text) {
  const refused = /^refused \((.*)\)$/s.exec(text)?.[1];
  if (refused !== undefined) return { refused };
  return text.startsWith("transferred") ? { isTransferred: true } : {};
}

/**
 * The purchases in an answer of `/v1/accounts/self/export`, newest first, as JSON-compatible objects. Dates are
 * milliseconds since 1970.
 *
 * Each has {transaction, product, date, quantity, kind, units, revoked}. `kind` is null for unknown terms, `units` is 0
 * except for consumables, and `revoked` is the date of a revocation or null. `refused` and `isTransferred` are present
 * if the server's decisions have them.
 */
export function purchasesOf({ ledger, serverLedger }, catalog) {
  const of = (facts, wanted) => facts.filter(({ kind }) => kind === wanted).map((fact) => ({
    fact, transaction: { store: fact.store, environment: fact.environment, id: fact.transactionID },
  }));
  const mapped = (facts, wanted, value) =>
    new Map(of(facts, wanted).map(({ fact, transaction }) => [mapKeyOf(transaction), value(fact)]));
  const revoked = mapped(ledger, "revocation", (fact) => Date.parse(fact.revokedAt));
  const decided = mapped(serverLedger, "acceptance", (fact) => decisionOf(fact.decision));
  return of(ledger, "purchase").map(({ fact, transaction }) => {
    const { productID: product, quantity, terms: kind } = fact;
    const units = catalog.products.find(({ id }) => id === product)?.units ?? 1;
    return {
      transaction, product, date: Date.parse(fact.purchaseDate), quantity, kind,
      units: kind === "consumable" ? units * quantity : 0, revoked: revoked.get(mapKeyOf(transaction)) ?? null,
      ...decided.get(mapKeyOf(transaction)),
    };
  }).sort((left, right) =>
    right.date - left.date || (mapKeyOf(left.transaction) < mapKeyOf(right.transaction) ? -1 : 1));
}
