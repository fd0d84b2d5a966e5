// The purchases of an account, as its ledger and the server's decisions about it record them.

import { fieldsOf } from "./protobuf.js";

/** The kinds of records that the history needs, by the number of their key's field (Docs/ledger.proto). */
const kinds = { 1: "purchase", 3: "revocation", 10: "acceptance" };

/** A transaction {store, environment, id} as text, which serves as a key of maps. */
const nameOf = ({ store, environment, id }) => JSON.stringify([store, environment, id]);

function recordsOf(ledger) {
  return ledger.records.flatMap(({ key, payload }) => {
    const kind = (key[0] & 7) === 2 ? kinds[key[0] >> 3] : undefined;
    const named = kind && fieldsOf(key)?.message(key[0] >> 3);
    const fields = kind && fieldsOf(payload);
    if (!named || !fields) return [];
    return [{ kind, fields, transaction: { store: named.text(1), environment: named.text(2), id: named.text(3) } }];
  });
}

/** {kind, units} of a purchase's terms; null for a product that no catalogue knew when it was bought. */
function termsOf(terms) {
  const kind = ["consumable", "nonConsumable", "nonRenewing", "autoRenewable"].find((_, index) =>
    terms?.message(index + 1));
  return kind ? { kind, units: Number(terms.message(1)?.number(1) ?? 0n) } : null;
}

function decisionOf(fields) {
  if (fields.data(3)) return { refused: fields.text(3) };
  if (fields.data(4)) return { transferredTo: fields.text(4) };
  return {};
}

/**
 * The purchases in `ledger`, newest first, as plain objects that JSON can hold. Dates are milliseconds since 1970.
 *
 * Each has {transaction, product, date, quantity, kind, units, revoked}. `kind` is null for unknown terms, `units` is 0
 * except for consumables, and `revoked` is the date of a refund, null without one. `refused` and `transferredTo`
 * are present if `decisions`, the ledger that the server writes, has them.
 */
export function purchasesOf(ledger, decisions) {
  const revoked = new Map();
  for (const { kind, fields, transaction } of recordsOf(ledger)) {
    if (kind === "revocation" && !fields.number(3)) revoked.set(nameOf(transaction), fields.signed(1) ?? 0);
  }
  const decided = new Map(recordsOf(decisions).filter(({ kind }) => kind === "acceptance")
    .map(({ fields, transaction }) => [nameOf(transaction), decisionOf(fields)]));
  return recordsOf(ledger).filter(({ kind }) => kind === "purchase").map(({ fields, transaction }) => {
    const quantity = Number(fields.number(4) ?? 0n);
    const terms = termsOf(fields.message(2));
    return {
      transaction, product: fields.text(1), date: fields.signed(3) ?? 0, quantity, kind: terms?.kind ?? null,
      units: (terms?.units ?? 0) * quantity, revoked: revoked.get(nameOf(transaction)) ?? null,
      ...decided.get(nameOf(transaction)),
    };
  }).sort((left, right) => right.date - left.date || (nameOf(left.transaction) < nameOf(right.transaction) ? -1 : 1));
}
