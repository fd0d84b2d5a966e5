// Fills the store of a server with copies of one account under other names, without its sessions.
//
//     crowd --store FILE --like NAME --count COUNT
//
// The server must not be running. The copies are named NAME followed by seven digits, starting at 0000001. Seven zeros in
// the ids of its facts become these digits, so that transactions of the copies differ.

import BenchmarkSupport
import Entitlements
import SQLiteStorage
import SyncCore

struct Failure: Error, CustomStringConvertible { let description: String }

/// Replaces each `pattern` in `bytes` by `name`.
func replacing(_ pattern: [UInt8], by name: [UInt8], in bytes: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    var start = bytes.startIndex
    while let found = bytes[start...].firstRange(of: pattern) {
        result += bytes[start..<found.lowerBound] + name
        start = found.upperBound
    }
    return result + bytes[start...]
}

/// A copy of a value: a ledger whose records have other digits, or a record of the server with another name.
func copy(of value: [UInt8], naming name: [UInt8], from pattern: [UInt8], digits: [UInt8]) -> [UInt8] {
    guard let document = try? LedgerDocument(decoding: value) else { return replacing(pattern, by: name, in: value) }
    let zeros = [UInt8](repeating: UInt8(ascii: "0"), count: digits.count)
    let records = document.ledger.records.map { record in
        Record(
            key: replacing(zeros, by: digits, in: record.key), order: record.order,
            payload: replacing(zeros, by: digits, in: record.payload))
    }
    return LedgerDocument(ledger: Ledger(records)).encoded()
}

/// All entries of the account.
func entries(of name: String, in store: SQLiteBackend) async throws -> [(key: String, value: [UInt8])] {
    var found: [(key: String, value: [UInt8])] = []
    for prefix in ["server/accounts/\(name)", "server/names/\(name)", "accounts/\(name)/"] {
        for item in try await store.list(prefix: prefix, after: nil, limit: 1_000).outcome.items {
            guard item.key.text == prefix || prefix.hasSuffix("/") else { continue }
            guard case .found(let entry) = try await store.read(item.key).outcome else { continue }
            found.append((item.key.text, entry.value))
        }
    }
    guard found.count > 1 else { throw Failure(description: "the store has no account \(name)") }
    return found
}

let usage = "crowd --store FILE --like NAME --count COUNT"
var arguments = Arguments(usage: usage)
let (storePath, likeName) = (arguments.text("--store"), arguments.text("--like"))
let count = arguments.number("--count", in: 1...9_999_999)
arguments.end()
guard let path = storePath, let name = likeName, let count else { exitWithFailure("usage: \(usage)", code: 2) }
do {
    let store = SQLiteBackend(path: path, creating: .never)
    let model = try await entries(of: name, in: store)
    let pattern = Array(name.utf8)
    // The number of copies in a transaction. With fewer, most pages of the file are written many times.
    let step = 20_000
    for start in stride(from: 1, through: count, by: step) {
        var requests: [WriteRequest] = []
        for number in start..<min(start + step, count + 1) {
            let digits = String(repeating: "0", count: 7 - String(number).count) + String(number)
            let other = name + digits
            for entry in model {
                let key = try EntryKey(entry.key.replacing(name, with: other, maxReplacements: 1))
                let value = copy(
                    of: entry.value, naming: Array(other.utf8), from: pattern, digits: Array(digits.utf8))
                requests.append(WriteRequest(key, value: value, if: .absent))
            }
        }
        for result in try await store.write(requests).outcome {
            guard case .written = try result.get() else {
                throw Failure(description: "the store has such copies already")
            }
        }
    }
    print("\(count) accounts of \(model.count) entries each")
} catch {
    exitWithFailure("\(error)")
}
