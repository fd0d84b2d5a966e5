// Ledger documents, byte for byte as Docs/ledger.proto and LedgerDocument.swift describe them.
//
// A ledger is a set of records (key, order, payload), all bytes. Two ledgers are joined by key: the larger order stays,
// then the larger payload. Records of kinds that this page does not know are bytes like all others: they are never
// read, never written anew, and so survive.

import { xxh64 } from "./xxh64.js";

const headerLength = 44;
const format = 1;
const erasedFlag = 1;
const longestPart = 1 << 20;
const utf8 = new TextEncoder();

/** A document cannot be read. Nothing of it was taken. */
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

/** A set of records, sorted by key, or the marker that stands in the place of an erased one. Never changes. */
export class Ledger {
  #records;

  /** A ledger of `records`, in any order; of two with one key the stronger stays. */
  constructor(records = [], isErased = false) {
    const sorted = [...records].sort((left, right) =>
      compareBytes(left.key, right.key) || compareContent(left, right));
    // The last of those with one key is the strongest.
    this.#records = sorted.filter((record, index) =>
      index + 1 === sorted.length || compareBytes(record.key, sorted[index + 1].key) !== 0);
    this.isErased = isErased;
  }

  get records() { return this.#records; }

  /** Whether a record has this key. */
  has(key) { return this.#records.some((record) => compareBytes(record.key, key) === 0); }

  /** How many purchases there are, whoever made them. */
  get purchaseCount() { return this.#records.filter(({ key }) => key[0] === (1 << 3 | 2)).length; }

  /** The union of both. The marker of an erased account absorbs the other side. */
  joined(other) {
    if (this.isErased || other.isErased) return new Ledger([], true);
    return new Ledger([...this.#records, ...other.records]);
  }

  /** The latest logical time of any record of a known kind, as a BigInt: what is added comes after it. */
  get latestTime() {
    return this.#records.reduce((latest, record) => {
      const time = logicalTime(record);
      return time > latest ? time : latest;
    }, 0n);
  }

  /** The document's bytes. Equal ledgers give equal bytes. */
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
    // No local section: that is for stores on a device, and no server takes one.
    view.setUint32(16, 0, true);
    view.setBigUint64(20, xxh64(records), true);
    view.setBigUint64(28, xxh64(new Uint8Array()), true);
    view.setBigUint64(36, xxh64(document.subarray(0, 36)), true);
    document.set(records, headerLength);
    return document;
  }

  /** Reads a document, all of it or nothing. Throws a LedgerFormatError. */
  static decode(bytes) {
    const fail = (reason) => { throw new LedgerFormatError(reason); };
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (bytes.length < headerLength || view.getUint32(0) !== 0x4553_4c47) fail("this is no ledger");
    const version = view.getUint16(4, true);
    if (version > format) fail(`the ledger is written in format ${version}; load this page anew`);
    if (version === 0 || xxh64(bytes.subarray(0, 36)) !== view.getBigUint64(36, true)) {
      fail("the ledger's header is damaged");
    }
    const flags = view.getUint16(6, true);
    if (flags > erasedFlag) fail("the ledger uses features of a later version; load this page anew");
    const end = headerLength + view.getUint32(12, true);
    if (bytes.length !== end + view.getUint32(16, true)) fail("the ledger is cut off");
    const run = bytes.subarray(headerLength, end);
    if (xxh64(run) !== view.getBigUint64(20, true)
      || xxh64(bytes.subarray(end)) !== view.getBigUint64(28, true)) fail("the ledger is damaged");
    const records = readRun(run, fail);
    if (records.length !== view.getUint32(8, true)) fail("the ledger's records do not add up");
    if (flags === erasedFlag && records.length > 0) fail("an erased ledger holds records");
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
      // A padded length would give one record two spellings.
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

/** The time of a fact made at `now` (milliseconds) by someone who has seen facts up to `latest`. */
export function nextTime(latest, now) {
  const physical = (BigInt(Math.max(0, now)) & 0xffff_ffff_ffffn) << 16n;
  const successor = latest === 0xffff_ffff_ffff_ffffn ? latest : latest + 1n;
  return physical > successor ? physical : successor;
}

/** Where the kinds of records have their logical time, by the number of their key's field. */
function logicalTime({ key, order, payload }) {
  const field = key[0] >> 3;
  const bigEndian = (offset) => new DataView(order.buffer, order.byteOffset, order.byteLength).getBigUint64(offset);
  switch ((key[0] & 7) === 2 ? field : 0) {
    case 1: case 3: case 4: return order.length === 17 ? bigEndian(9) : 0n;
    case 2: case 9: case 13: return order.length === 8 ? ~bigEndian(0) & 0xffff_ffff_ffff_ffffn : 0n;
    case 5: return lastNumber(payload, 3);
    case 6: case 7: return order.length === 24 ? bigEndian(0) : 0n;
    case 8: case 10: case 11: case 12: return order.length === 8 ? bigEndian(0) : 0n;
    default: return 0n;
  }
}

/** The number in `field` of a message, 0 where it is not there or the message is malformed. */
function lastNumber(message, field) {
  let offset = 0;
  let found = 0n;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; shift < 70n && offset < message.length; shift += 7n) {
      const byte = message[offset];
      offset += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value & 0xffff_ffff_ffff_ffffn;
    }
    offset = Infinity;
    return 0n;
  };
  while (offset < message.length) {
    const tag = varint();
    switch (tag & 7n) {
      case 0n: {
        const value = varint();
        if (tag >> 3n === BigInt(field)) found = value;
        break;
      }
      case 1n: offset += 8; break;
      case 2n: offset += Number(varint()); break;
      case 5n: offset += 4; break;
      default: return 0n;
    }
  }
  return offset === message.length ? found : 0n;
}

// Facts as records.

/** Writes the proto3 wire format canonically: fields in ascending order, no defaults, no padding. */
class Writer {
  #parts = [];

  varint(value) {
    let rest = BigInt.asUintN(64, value);
    while (rest > 0x7fn) {
      this.#parts.push(Number(rest & 0x7fn) | 0x80);
      rest >>= 7n;
    }
    this.#parts.push(Number(rest));
  }

  raw(bytes) { for (const byte of bytes) this.#parts.push(byte); }

  number(field, value) {
    if (value === 0) return;
    this.varint(BigInt(field << 3));
    this.varint(BigInt(value));
  }

  /** Milliseconds since 1970 as a sint64; `isOptional` where 0 and "none" differ. */
  date(field, milliseconds, isOptional = false) {
    if (milliseconds === 0 && !isOptional) return;
    const value = BigInt(milliseconds);
    this.varint(BigInt(field << 3));
    this.varint((value << 1n) ^ (value >> 63n));
  }

  data(field, bytes, isOptional = false) {
    if (bytes.length === 0 && !isOptional) return;
    this.varint(BigInt((field << 3) | 2));
    this.varint(BigInt(bytes.length));
    this.raw(bytes);
  }

  text(field, text, isOptional = false) { this.data(field, utf8.encode(text), isOptional); }

  /** A message; an empty one is present all the same. */
  message(field, body) {
    const inner = new Writer();
    body(inner);
    this.data(field, inner.bytes(), true);
  }

  bytes() { return Uint8Array.from(this.#parts); }
}

function written(body) {
  const writer = new Writer();
  body(writer);
  return writer.bytes();
}

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
  // Nobody signed it: the first byte is 0, and the date of a signature 0 with its sign bit flipped.
  if (isStamp) view.setBigUint64(1, 1n << 63n);
  view.setBigUint64(isStamp ? 9 : 0, isComplement ? ~time & 0xffff_ffff_ffff_ffffn : time);
  return bytes;
}

/** The key of the purchase that `transaction` names: {store, environment, id}. */
export const purchaseKey = (transaction) => written((writer) =>
  writer.message(1, (inner) => writeTransaction(inner, transaction)));

/** The key of the spend `id`. */
export const spendKey = (id) => written((writer) => writer.text(8, id, true));

/** A purchase that no store signed. `terms` as `termsOf` gives them; dates in milliseconds since 1970. */
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

/** That `replica` (16 bytes) entered a purchase; `knownEnd` is the end of its group that it knew, if any. */
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

/** That units of a consumable were used. */
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
    default: throw new Error(`${kind}: this page does not know how that is sold`);
  }
  if (bonus.months + bonus.days + bonus.seconds > 0) writer.message(15, (inner) => writeDuration(inner, bonus));
}

/** The terms on which the catalogue sells `product` today: they stay with the purchase, whatever is sold later. */
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
    // A present of time, for whoever buys time.
    bonus: durationOf(isTimed ? catalog.policy?.bonus ?? "P0D" : "P0D"),
  };
}

/** An ISO 8601 duration of whole numbers, as calendar months, days and seconds. */
export function durationOf(text) {
  const match = /^P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$/.exec(text);
  if (!match) throw new Error(`"${text}" is no duration`);
  const [years, months, weeks, days, hours, minutes, seconds] = match.slice(1).map((part) => Number(part ?? 0));
  return {
    months: years * 12 + months,
    days: weeks * 7 + days,
    seconds: hours * 3600 + minutes * 60 + seconds,
  };
}
