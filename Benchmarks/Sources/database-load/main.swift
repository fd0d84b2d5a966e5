// Puts load on a store in PostgreSQL, and prints one number.
//
//     database-load --url URL --work fill|read|write|follow [--clients 32] [--seconds 5]
//
// fill creates 10,000 entries of 1,000 bytes and prints their number. read and write use them, each client one at a
// time, and print the operations a second. follow prints the seconds until a new process has the latest cursor and the
// first page after it.

import BenchmarkSupport
import PostgreSQLStorage
import SyncCore

let keyCount = 10_000
let value = [UInt8](repeating: 120, count: 1_000)

func key(_ number: Int) throws -> EntryKey { try EntryKey("bench/\(number)") }

/// Performs `work` again and again in each client. Returns the number of operations a second.
func rate(clients: Int, seconds: Int, _ work: @escaping @Sendable (_ number: Int) async throws -> Void) async throws
    -> Double
{
    let begin = ContinuousClock.now
    let end = begin + .seconds(seconds)
    let total = try await withThrowingTaskGroup(of: Int.self) { group in
        for _ in 0..<clients {
            group.addTask {
                var count = 0
                while ContinuousClock.now < end {
                    try await work(.random(in: 0..<keyCount))
                    count += 1
                }
                return count
            }
        }
        return try await group.reduce(0, +)
    }
    return Double(total) / (begin.duration(to: .now).nanoseconds / 1e9)
}

let usage = "database-load --url URL --work fill|read|write|follow [--clients 32] [--seconds 5]"
var arguments = Arguments(usage: usage)
let (urlText, workText) = (arguments.text("--url"), arguments.text("--work"))
let clients = arguments.number("--clients", in: 1...1_000) ?? 32
let seconds = arguments.number("--seconds", in: 1...3_600) ?? 5
arguments.end()
guard let url = urlText, let work = workText else { exitWithFailure("usage: \(usage)", code: 2) }
do {
    let begin = ContinuousClock.now
    let store = PostgreSQLBackend(try PostgreSQLBackend.Configuration(url))
    switch work {
    case "fill":
        for start in stride(from: 0, to: keyCount, by: 500) {
            let requests = try (start..<start + 500).map { WriteRequest(try key($0), value: value, if: .any) }
            for result in try await store.write(requests).outcome { _ = try result.get() }
        }
        print(keyCount)
    case "read":
        let rate = try await rate(clients: clients, seconds: seconds) { number in
            guard case .found(let entry) = try await store.read(try key(number)).outcome, entry.value == value else {
                exitWithFailure("bench/\(number) is not as it was written; run --work fill first")
            }
        }
        print(decimal(rate, places: 0))
    case "write":
        let rate = try await rate(clients: clients, seconds: seconds) { number in
            _ = try await store.write(value, to: try key(number), if: .any)
        }
        print(decimal(rate, places: 0))
    case "follow":
        let latest = try await store.latestCursor().outcome
        let page = try await store.changes(since: latest, prefix: "", limit: 100).outcome
        expect(page.changes.isEmpty, "no change after the latest one")
        print(decimal(begin.duration(to: .now).nanoseconds / 1e9, places: 3))
    default: exitWithFailure("\(work) is unknown; usage: \(usage)", code: 2)
    }
} catch {
    exitWithFailure("\(error)")
}
