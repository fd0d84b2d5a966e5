// XXH64 with seed 0, as specified by Yann Collet ("xxHash fast digest algorithm", version 0.1.1).
// It detects damage; it does not protect against forgery.

const mask = 0xffff_ffff_ffff_ffffn;
const prime1 = 0x9e37_79b1_85eb_ca87n;
const prime2 = 0xc2b2_ae3d_27d4_eb4fn;
const prime3 = 0x1656_67b1_9e37_79f9n;
const prime4 = 0x85eb_ca77_c2b2_ae63n;
const prime5 = 0x27d4_eb2f_1656_67c5n;

const rotate = (value, count) => ((value << count) | (value >> (64n - count))) & mask;
const round = (lane, input) => (rotate((lane + input * prime2) & mask, 31n) * prime1) & mask;

/** The digest of `bytes`, a Uint8Array, as a BigInt. */
export function xxh64(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = bytes.length;
  let offset = 0;
  let sum = prime5;
  if (end >= 32) {
    const lanes = [(prime1 + prime2) & mask, prime2, 0n, (-prime1) & mask];
    for (; offset + 32 <= end; offset += 32) {
      for (let lane = 0; lane < 4; lane += 1) {
        lanes[lane] = round(lanes[lane], view.getBigUint64(offset + lane * 8, true));
      }
    }
    sum = (rotate(lanes[0], 1n) + rotate(lanes[1], 7n) + rotate(lanes[2], 12n) + rotate(lanes[3], 18n)) & mask;
    for (const lane of lanes) sum = (((sum ^ round(0n, lane)) * prime1) + prime4) & mask;
  }
  sum = (sum + BigInt(end)) & mask;
  for (; offset + 8 <= end; offset += 8) {
    sum = (rotate(sum ^ round(0n, view.getBigUint64(offset, true)), 27n) * prime1 + prime4) & mask;
  }
  if (offset + 4 <= end) {
    sum = (rotate(sum ^ ((BigInt(view.getUint32(offset, true)) * prime1) & mask), 23n) * prime2 + prime3) & mask;
    offset += 4;
  }
  for (; offset < end; offset += 1) {
    sum = (rotate(sum ^ ((BigInt(bytes[offset]) * prime5) & mask), 11n) * prime1) & mask;
  }
  sum = ((sum ^ (sum >> 33n)) * prime2) & mask;
  sum = ((sum ^ (sum >> 29n)) * prime3) & mask;
  return sum ^ (sum >> 32n);
}
