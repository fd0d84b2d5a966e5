// Puts a crowd into a server's store: copies of one account under other names, with all that it has but its sessions.
//
//     crowd --store FILE --like NAME --count COUNT
//
// The server must not be running. The copies are named NAME and seven digits, from 0000001 on.

import Foundation
import SQLiteStorage
import SyncCore

struct Failure: Error, CustomStringConvertible { let description: String }

func argument(_ name: String) throws -> String {
    guard let place = CommandLine.arguments.firstIndex(of: name), place + 1 < CommandLine.arguments.count else {
        throw Failure(description: "usage: crowd --store FILE --like NAME --count COUNT")
    }
    return CommandLine.arguments[place + 1]
}

/// `bytes` with `name` in the place of each `pattern`.
func replacing(_ pattern: [UInt8], by name: [UInt8], in bytes: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    var start = bytes.startIndex
    while let found = bytes[start...].firstRange(of: pattern) {
        result += bytes[start..<found.lowerBound] + name
        start = found.upperBound
    }
    return result + bytes[start...]
}

/// All entries of the account.
func entries(of name: String, in store: SQLiteBackend) async throws -> [(key: String, value: [UInt8])] {
    var found: [(key: String, value: [UInt8])] = []
    for prefix in ["server/accounts/\(name)", "accounts/\(name)/"] {
        for item in try await store.list(prefix: prefix, after: nil, limit: 1_000).outcome.items {
            guard item.key.text == prefix || prefix.hasSuffix("/") else { continue }
            guard case .found(let entry) = try await store.read(item.key).outcome else { continue }
            found.append((item.key.text, entry.value))
        }
    }
    guard found.count > 1 else { throw Failure(description: "there is no account \(name) in the store") }
    return found
}

do {
    let (path, name) = (try argument("--store"), try argument("--like"))
    guard let count = Int(try argument("--count")), (1...9_999_999).contains(count) else {
        throw Failure(description: "--count is from 1 to 9999999")
    }
    let store = SQLiteBackend(path: path, creating: .never, cachedByteCount: 0)
    let model = try await entries(of: name, in: store)
    let pattern = Array(name.utf8)
    // Copies that are committed together: fewer would write most pages of the file again and again.
    let step = 20_000
    for start in stride(from: 1, through: count, by: step) {
        var requests: [WriteRequest] = []
        for number in start..<min(start + step, count + 1) {
            let digits = String(number)
            let copy = name + String(repeating: "0", count: 7 - digits.count) + digits
            for entry in model {
                let key = try EntryKey(entry.key.replacing(name, with: copy, maxReplacements: 1))
                let value = replacing(pattern, by: Array(copy.utf8), in: entry.value)
                requests.append(WriteRequest(key, value: value, if: .absent))
            }
        }
        for result in try await store.write(requests).outcome {
            guard case .written = try result.get() else { throw Failure(description: "some of them are there already") }
        }
    }
    print("\(count) accounts of \(model.count) entries each")
} catch {
    FileHandle.standardError.write(Data("crowd: \(error)\n".utf8))
    exit(1)
}
