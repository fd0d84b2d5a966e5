import Checksums
import SyncCore

/// The checksums of a store's rows. They detect accidents, not forgery.
package enum RowChecksums {
    /// The first row number for a key, derived from its hash.
    package static func number(of key: [UInt8]) -> Int64 {
        Int64(bitPattern: XXHash64.digest(of: key))
    }

    /// The row number of attempt 2, 3 and so on, if the earlier rows belong to other keys. It uses another hash,
    /// because keys that collide under one seed of XXH64 can be made to collide under others too.
    static func number(of key: [UInt8], attempt: Int) -> Int64 {
        Int64(bitPattern: SipHash.digest(of: key, key: (0x456E_7469_746C_656D, UInt64(attempt))))
    }

    /// The checksum of a value. A tombstone row has 0 instead.
    package static func checksum(of value: UnsafeRawBufferPointer) -> Int64 {
        Int64(bitPattern: XXHash64.digest(of: value, seed: 1))
    }

    /// The row checksum for `entry`, over everything except the value itself.
    package static func checksum(
        key: UnsafeRawBufferPointer, version: UnsafeRawBufferPointer, sequence: Int64, checksum: Int64
    ) -> Int64 {
        let overKey = XXHash64.digest(of: key, seed: UInt64(key.count))
        let overVersion = XXHash64.digest(of: version, seed: overKey)
        return number(of: (sequence, checksum), seed: overVersion)
    }

    /// The row checksum for `change`.
    package static func checksum(sequence: Int64, tag: Int64, entry: Int64) -> Int64 {
        number(of: (sequence, tag), seed: UInt64(bitPattern: entry))
    }

    private static func number(of pair: (Int64, Int64), seed: UInt64) -> Int64 {
        withUnsafeBytes(of: (pair.0.bigEndian, pair.1.bigEndian)) { bytes in
            Int64(bitPattern: XXHash64.digest(of: bytes, seed: seed))
        }
    }
}
