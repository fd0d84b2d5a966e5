// Extracts the purchases of an account from its ledger and the server's decisions.

import { fieldsOf } from "./protobuf.js";

/** The kinds of records that the history needs, by the field number in their key (see `Docs/ledger.proto`). */
const kinds = { 1: "purchase", 3: "revocation", 10: "acceptance" };

/** A transaction {store, environment, id} as text, for use as a map key. */
const mapKeyOf = ({ store, environment, id }) => JSON.stringify([store, environment, id]);

/** {kind, fields, transaction} of each record in `ledger` whose kind the history needs. */
function recordsOf(ledger) {
  return ledger.records.flatMap(({ key, payload }) => {
    // A key has one field. Its first byte holds the field number and the wire type; 2 is length-delimited.
    const kind = (key[0] & 7) === 2 ? kinds[key[0] >> 3] : undefined;
    const reference = kind && fieldsOf(key)?.message(key[0] >> 3);
    const fields = kind && fieldsOf(payload);
    if (!reference || !fields) return [];
    const transaction = { store: reference.text(1), environment: reference.text(2), id: reference.text(3) };
    return [{ kind, fields, transaction }];
  });
}

/** {kind, units} of a purchase's terms; null if the product was in no catalogue at the time of purchase. */
function termsOf(terms) {
  const kind = ["consumable", "nonConsumable", "nonRenewing", "autoRenewable"].find((_, index) =>
    terms?.message(index + 1));
  return kind ? { kind, units: Number(terms.message(1)?.number(1) ?? 0n) } : null;
}

/** {refused} or {transferredTo} of a decision; empty if the purchase counts. */
function decisionOf(fields) {
  if (fields.data(3)) return { refused: fields.text(3) };
  if (fields.data(4)) return { transferredTo: fields.text(4) };
  return {};
}

/**
 * The purchases in `ledger`, newest first, as JSON-compatible objects. Dates are milliseconds since 1970.
 *
 * Each has {transaction, product, date, quantity, kind, units, revoked}. `kind` is null for unknown terms, `units` is 0
 * except for consumables, and `revoked` is the date of a revocation or null. `refused` and `transferredTo` are
 * present if `decisions`, the ledger that the server writes, has them.
 */
export function purchasesOf(ledger, decisions) {
  const revoked = new Map();
  for (const { kind, fields, transaction } of recordsOf(ledger)) {
    // Field 3 marks a reinstatement, after which the purchase counts again.
    if (kind === "revocation" && !fields.number(3)) revoked.set(mapKeyOf(transaction), fields.signed(1) ?? 0);
  }
  const decided = new Map(recordsOf(decisions).filter(({ kind }) => kind === "acceptance")
    .map(({ fields, transaction }) => [mapKeyOf(transaction), decisionOf(fields)]));
  return recordsOf(ledger).filter(({ kind }) => kind === "purchase").map(({ fields, transaction }) => {
    const quantity = Number(fields.number(4) ?? 0n);
    const terms = termsOf(fields.message(2));
    return {
      transaction, product: fields.text(1), date: fields.signed(3) ?? 0, quantity, kind: terms?.kind ?? null,
      units: (terms?.units ?? 0) * quantity, revoked: revoked.get(mapKeyOf(transaction)) ?? null,
      ...decided.get(mapKeyOf(transaction)),
    };
  }).sort((left, right) =>
    right.date - left.date || (mapKeyOf(left.transaction) < mapKeyOf(right.transaction) ? -1 : 1));
}
