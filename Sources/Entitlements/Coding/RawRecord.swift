import ProtoCoding

/// A record in memory that the caller keeps alive.
///
/// Facts are decoded from it, because copying the three parts into arrays would take as long as decoding them.
struct RawRecord {
    let key: RawBytes
    let order: RawBytes
    let payload: RawBytes

    /// The record in arrays of its own.
    var copy: Record { Record(key: Array(key), order: Array(order), payload: Array(payload)) }
}

extension Record {
    /// Calls `body` with the record's bytes, which are valid during the call only.
    func withRawRecord<Result>(_ body: (RawRecord) -> Result) -> Result {
        key.withUnsafeBytes { key in
            order.withUnsafeBytes { order in
                payload.withUnsafeBytes { payload in
                    body(RawRecord(key: key, order: order, payload: payload))
                }
            }
        }
    }
}

/// The facts of a ledger in ascending order of their keys, each decoded when it is asked for.
struct DecodedFacts: Sequence, IteratorProtocol {
    private let run: [UInt8]
    private var position = 0

    init(_ ledger: Ledger) { run = ledger.run }

    mutating func next() -> Fact? {
        let (fact, end) = run.withUnsafeBytes { bytes -> (Fact?, Int) in
            guard let record = RecordRun(checked: RawBytes(rebasing: bytes[position...])) else {
                return (nil, position)
            }
            return (Fact(record.raw), position + record.byteCount)
        }
        position = end
        return fact
    }
}
