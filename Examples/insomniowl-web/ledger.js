// Ledger documents, byte for byte as in Docs/ledger.proto and LedgerDocument.swift.
//
// A ledger is a set of records, each of three byte strings: key, order and payload. Joining two ledgers keeps, for each
// key, the record with the larger order, then the larger payload. Records of unknown kinds are preserved as they are.

import { fieldsOf, Writer, written } from "./protobuf.js";
import { xxh64 } from "./xxh64.js";

const headerLength = 44;
const format = 1;
const erasedFlag = 1;
const longestPart = 1 << 20;
const utf8 = new TextEncoder();

/** A document that cannot be read. No part of it is used. */
export class LedgerFormatError extends Error {}

/** Compares byte by byte; negative when `left` comes first. */
export function compareBytes(left, right) {
  const shorter = Math.min(left.length, right.length);
  for (let index = 0; index < shorter; index += 1) {
    if (left[index] !== right[index]) return left[index] - right[index];
  }
  return left.length - right.length;
}

const compareContent = (left, right) =>
  compareBytes(left.order, right.order) || compareBytes(left.payload, right.payload);

/** An immutable set of records, sorted by key; or the marker that replaces the ledger of an erased account. */
export class Ledger {
  #records;

  /** A ledger of `records`, in any order. Of several records with one key the largest stays. */
  constructor(records = [], isErased = false) {
    const sorted = [...records].sort((left, right) =>
      compareBytes(left.key, right.key) || compareContent(left, right));
    // The last record of each key is the largest.
    this.#records = sorted.filter((record, index) =>
      index + 1 === sorted.length || compareBytes(record.key, sorted[index + 1].key) !== 0);
    this.isErased = isErased;
  }

  get records() { return this.#records; }

  /** True if a record has this key. */
  has(key) { return this.#records.some((record) => compareBytes(record.key, key) === 0); }

  /** The number of purchases, from all devices and stores. */
  get purchaseCount() { return this.#records.filter(({ key }) => key[0] === (1 << 3 | 2)).length; }

  /** The union of both. If one side is erased, so is the result. */
  joined(other) {
    if (this.isErased || other.isErased) return new Ledger([], true);
    return new Ledger([...this.#records, ...other.records]);
  }

  /** The latest logical time of all records of known kinds, as a BigInt. New records must have a later one. */
  get latestTime() {
    return this.#records.reduce((latest, record) => {
      const time = logicalTime(record);
      return time > latest ? time : latest;
    }, 0n);
  }

  /** The document. Equal ledgers have equal documents. */
  encoded() {
    const run = new Writer();
    for (const { key, order, payload } of this.#records) {
      for (const part of [key, order, payload]) run.varint(BigInt(part.length));
      for (const part of [key, order, payload]) run.raw(part);
    }
    const records = run.bytes();
    const document = new Uint8Array(headerLength + records.length);
    const view = new DataView(document.buffer);
    document.set(utf8.encode("ESLG"), 0);
    view.setUint16(4, format, true);
    view.setUint16(6, this.isErased ? erasedFlag : 0, true);
    view.setUint32(8, this.#records.length, true);
    view.setUint32(12, records.length, true);
    // No local section: only stores on a device have one, and a server refuses it.
    view.setUint32(16, 0, true);
    view.setBigUint64(20, xxh64(records), true);
    view.setBigUint64(28, xxh64(new Uint8Array()), true);
    view.setBigUint64(36, xxh64(document.subarray(0, 36)), true);
    document.set(records, headerLength);
    return document;
  }

  /** Decodes a document. Throws a LedgerFormatError if any part of it is malformed. */
  static decode(bytes) {
    const fail = (reason) => { throw new LedgerFormatError(reason); };
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (bytes.length < headerLength || view.getUint32(0) !== 0x4553_4c47) fail("this is not a ledger");
    const version = view.getUint16(4, true);
    if (version > format) fail(`the ledger has format ${version}; please reload this page`);
    if (version === 0 || xxh64(bytes.subarray(0, 36)) !== view.getBigUint64(36, true)) {
      fail("the ledger's header is damaged");
    }
    const flags = view.getUint16(6, true);
    if (flags > erasedFlag) fail("the ledger needs a later version of this page; please reload it");
    const end = headerLength + view.getUint32(12, true);
    if (bytes.length !== end + view.getUint32(16, true)) fail("the ledger is cut off");
    const run = bytes.subarray(headerLength, end);
    if (xxh64(run) !== view.getBigUint64(20, true)
      || xxh64(bytes.subarray(end)) !== view.getBigUint64(28, true)) fail("the ledger is damaged");
    const records = readRun(run, fail);
    if (records.length !== view.getUint32(8, true)) fail("the ledger's count of records is wrong");
    if (flags === erasedFlag && records.length > 0) fail("an erased ledger has records");
    return new Ledger(records, flags === erasedFlag);
  }
}

function readRun(run, fail) {
  const records = [];
  let offset = 0;
  const length = () => {
    let value = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = run[offset];
      if (byte === undefined) break;
      offset += 1;
      value |= (byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      // Padding is refused: each record has exactly one encoding.
      if (byte === 0 && shift > 0) break;
      return value;
    }
    return fail("the length of a record is malformed");
  };
  const part = (count) => {
    if (count > longestPart || count > run.length - offset) fail("a record runs past its end");
    offset += count;
    return run.slice(offset - count, offset);
  };
  while (offset < run.length) {
    const lengths = [length(), length(), length()];
    const [key, order, payload] = lengths.map(part);
    if (key.length === 0) fail("a record has an empty key");
    if (records.length > 0 && compareBytes(records.at(-1).key, key) >= 0) fail("the records are out of order");
    records.push({ key, order, payload });
  }
  return records;
}

// Logical time: 48 bits of milliseconds since 1970, 16 bits of counter (a hybrid logical clock).

/** The logical time of a record made at `now` (milliseconds) in a ledger whose latest logical time is `latest`. */
export function nextTime(latest, now) {
  const physical = (BigInt(Math.max(0, now)) & 0xffff_ffff_ffffn) << 16n;
  const successor = latest === 0xffff_ffff_ffff_ffffn ? latest : latest + 1n;
  return physical > successor ? physical : successor;
}

/** The logical time of a record. Its place depends on the kind, the number of the key's field. */
function logicalTime({ key, order, payload }) {
  const field = key[0] >> 3;
  const bigEndian = (offset) => new DataView(order.buffer, order.byteOffset, order.byteLength).getBigUint64(offset);
  switch ((key[0] & 7) === 2 ? field : 0) {
    case 1: case 3: case 4: return order.length === 17 ? bigEndian(9) : 0n;
    case 2: case 9: case 13: return order.length === 8 ? ~bigEndian(0) & 0xffff_ffff_ffff_ffffn : 0n;
    case 5: return fieldsOf(payload)?.number(3) ?? 0n;
    case 6: case 7: return order.length === 24 ? bigEndian(0) : 0n;
    case 8: case 10: case 11: case 12: return order.length === 8 ? bigEndian(0) : 0n;
    default: return 0n;
  }
}

// Facts as records.

const writeTransaction = (writer, { store, environment, id }) => {
  writer.text(1, store);
  writer.text(2, environment);
  writer.text(3, id);
};

const writeDuration = (writer, { months, days, seconds }) => {
  writer.number(1, months);
  writer.number(2, days);
  writer.number(3, seconds);
};

function order(time, { isComplement = false, isStamp = false } = {}) {
  const bytes = new Uint8Array(isStamp ? 17 : 8);
  const view = new DataView(bytes.buffer);
  // Unsigned: the first byte is 0, and the date of the signature is 0 with its sign bit flipped.
  if (isStamp) view.setBigUint64(1, 1n << 63n);
  view.setBigUint64(isStamp ? 9 : 0, isComplement ? ~time & 0xffff_ffff_ffff_ffffn : time);
  return bytes;
}

/** A random UUID, the id of a transaction or a spend. `crypto.randomUUID` exists in secure contexts only. */
export function randomUUID() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** The key of the purchase with `transaction`: {store, environment, id}. */
export const purchaseKey = (transaction) => written((writer) =>
  writer.message(1, (inner) => writeTransaction(inner, transaction)));

/** The key of the spend `id`. */
export const spendKey = (id) => written((writer) => writer.text(8, id, true));

/** An unsigned purchase. `terms` are those of `termsOf`; dates are milliseconds since 1970. */
export function purchaseRecord({ transaction, product, terms, date, quantity, time }) {
  return {
    key: purchaseKey(transaction),
    order: order(time, { isStamp: true }),
    payload: written((writer) => {
      writer.text(1, product);
      writer.message(2, (inner) => writeTerms(inner, terms));
      writer.date(3, date);
      writer.number(4, quantity);
    }),
  };
}

/** The recording of a purchase by `replica` (16 bytes). `knownEnd`: the end of its group as known then, or null. */
export function recordingRecord({ transaction, replica, recordedAt, knownEnd = null, time }) {
  return {
    key: written((writer) => writer.message(2, (inner) => {
      inner.message(1, (reference) => writeTransaction(reference, transaction));
      inner.data(2, replica);
    })),
    order: order(time, { isComplement: true }),
    payload: written((writer) => {
      writer.date(1, recordedAt);
      if (knownEnd !== null) writer.date(2, knownEnd, true);
    }),
  };
}

/** A spend of `units` of a consumable. */
export function spendRecord({ id, product, units, replica, date, environment, time }) {
  return {
    key: spendKey(id),
    order: order(time),
    payload: written((writer) => {
      writer.text(1, product);
      writer.number(2, units);
      writer.data(3, replica);
      writer.date(4, date);
      writer.text(5, environment);
    }),
  };
}

function writeTerms(writer, { kind, units, group, duration, level, introductory, bonus }) {
  switch (kind) {
    case "consumable": writer.message(1, (inner) => inner.number(1, units)); break;
    case "nonConsumable": writer.message(2, () => {}); break;
    case "nonRenewing":
      writer.message(3, (inner) => {
        inner.text(1, group);
        inner.message(2, (length) => writeDuration(length, duration));
      });
      break;
    case "autoRenewable":
      writer.message(4, (inner) => {
        inner.text(1, group);
        inner.message(2, (length) => writeDuration(length, duration));
        inner.number(3, level);
        if (introductory) {
          inner.message(4, (offer) => {
            offer.number(1, introductory.mode);
            offer.message(2, (length) => writeDuration(length, introductory.duration));
          });
        }
      });
      break;
    default: throw new Error(`${kind}: unknown type of product; please reload this page`);
  }
  if (bonus.months + bonus.days + bonus.seconds > 0) writer.message(15, (inner) => writeDuration(inner, bonus));
}

/** The terms on which the catalogue sells `product`. A purchase keeps its terms when the catalogue changes. */
export function termsOf(product, catalog) {
  const modes = { free: 1, payAsYouGo: 2, payUpFront: 3 };
  const isTimed = product.type === "nonRenewing" || product.type === "autoRenewable";
  return {
    kind: product.type,
    units: product.units ?? 1,
    group: product.group,
    level: product.level,
    duration: isTimed ? durationOf(product.duration) : null,
    introductory: product.introductory
      ? { mode: modes[product.introductory.mode], duration: durationOf(product.introductory.duration) } : null,
    // Only subscriptions get bonus time.
    bonus: durationOf(isTimed ? catalog.policy?.bonus ?? "P0D" : "P0D"),
  };
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
