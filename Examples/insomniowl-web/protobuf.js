// The part of the proto3 wire format that ledgers need.

const utf8 = new TextEncoder();

/** Writes the canonical proto3 wire format: fields in ascending order, no defaults, no padding. */
export class Writer {
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

  /** Milliseconds since 1970 as a sint64. `isOptional`: 0 is written too, since it differs from an absent field. */
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

  /** A message, written even if it is empty. */
  message(field, body) {
    const inner = new Writer();
    body(inner);
    this.data(field, inner.bytes(), true);
  }

  bytes() { return Uint8Array.from(this.#parts); }
}

/** The bytes that `body` writes. */
export function written(body) {
  const writer = new Writer();
  body(writer);
  return writer.bytes();
}

/** The fields of a message by number. If a field occurs several times, the last one counts, as in proto3. */
class Fields {
  #values = new Map();

  set(field, type, value) { this.#values.set(`${field}:${type}`, value); }

  /** An unsigned number as a BigInt; null if it is absent. */
  number(field) { return this.#values.get(`${field}:0`) ?? null; }

  /** A sint64 as a Number; null if it is absent. */
  signed(field) {
    const value = this.number(field);
    return value === null ? null : Number(BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n)));
  }

  /** Bytes; null if they are absent. */
  data(field) { return this.#values.get(`${field}:2`) ?? null; }

  text(field) { return new TextDecoder().decode(this.data(field) ?? new Uint8Array()); }

  /** The fields of a message; null if it is absent or malformed. */
  message(field) { return this.data(field) && fieldsOf(this.data(field)); }
}

/** Reads the fields of a message, a Uint8Array; null if it is malformed. Groups count as malformed. */
export function fieldsOf(message) {
  const fields = new Fields();
  let offset = 0;
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
      case 0n: fields.set(tag >> 3n, 0, varint()); break;
      case 1n: offset += 8; break;
      case 2n: {
        const count = Number(varint());
        fields.set(tag >> 3n, 2, message.slice(offset, offset + count));
        offset += count;
        break;
      }
      case 5n: offset += 4; break;
      default: return null;
    }
  }
  return offset === message.length ? fields : null;
}
