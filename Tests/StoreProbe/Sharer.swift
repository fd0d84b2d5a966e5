import Foundation
import SyncCore

/// One of two processes that use a store at the same time, as an app and `syncd` do. It writes without pauses, and
/// follows the writes of the other process through signals and changes.
///
/// Its output has one line for each event: `wrote NUMBER NANOSECONDS` for every acknowledged write, `saw NUMBER
/// NANOSECONDS` for every write of the other process whose value it has read, and `raised TIMES` for the increments of
/// the shared counter. The times are those of the machine's monotonic clock, which both processes share.
struct Sharer {
    private let backend: any KeyValueBackend
    private let name: String
    private let other: String

    init(_ backend: any KeyValueBackend, name: String, other: String) {
        (self.backend, self.name, self.other) = (backend, name, other)
    }

    /// Waits for the other process, writes for `limit`, and follows the other process until its last write. Returns the
    /// output.
    func run(for limit: Duration) async throws -> String {
        var follower = Follower(backend, of: other)
        // Creating the store and reading changes for the first time are not measured.
        try await put(0, under: "here")
        try await follower.readChanges()
        try await put(0, under: "ready")
        try await follower.follow { $0.isReady }
        async let wrote = write(for: limit)
        try await follower.follow { $0.isAtEnd }
        let (times, raises) = try await wrote
        let lines =
            times.enumerated().map { "wrote \($0.offset) \($0.element)" }
            + follower.times.sorted { $0.key < $1.key }.map { "saw \($0.key) \($0.value)" } + ["raised \(raises)"]
        return lines.joined(separator: "\n")
    }

    /// Returns the time of each acknowledged write, and the number of increments of the counter.
    private func write(for limit: Duration) async throws -> (times: [UInt64], raises: Int) {
        let counter = try EntryKey("counter")
        let end = ContinuousClock.now + limit
        var (times, raises) = ([UInt64](), 0)
        while times.isEmpty || ContinuousClock.now < end {
            try await put(times.count, under: "\(times.count % 50)/\(times.count)")
            times.append(nanoseconds())
            if times.count % 10 == 0 {
                try await backend.raise(counter)
                raises += 1
            }
        }
        try await put(times.count, under: "end")
        return (times, raises)
    }

    private func put(_ number: Int, under suffix: String) async throws {
        let outcome = try await backend.write(
            Array("\(name) \(number)".utf8), to: EntryKey("\(name)/\(suffix)"), if: .absent
        ).outcome
        guard case .written = outcome else {
            throw BackendError(
                .other, message: "\(name)/\(suffix) has no other writer, but the outcome is \(outcome)")
        }
    }
}

/// Reads the writes of another process whenever the store signals a change.
private struct Follower {
    private let backend: any KeyValueBackend
    private let other: String
    private let signals: AsyncStream<Void>
    private var cursor: ChangeCursor?
    /// The time after each write was read, by its number.
    private(set) var times: [Int: UInt64] = [:]
    /// True if the other process is ready to write.
    private(set) var isReady = false
    /// True if the other process has made its last write.
    private(set) var isAtEnd = false

    init(_ backend: any KeyValueBackend, of other: String) {
        (self.backend, self.other) = (backend, other)
        signals = backend.signals()
    }

    /// Reads changes after each signal until `condition` holds.
    mutating func follow(until condition: (Follower) -> Bool) async throws {
        var iterator = signals.makeAsyncIterator()
        while !condition(self) {
            guard await iterator.next() != nil else {
                throw BackendError(.other, message: "the signals ended while waiting for \(other)")
            }
            try await readChanges()
        }
    }

    /// Reads all new changes and their values.
    mutating func readChanges() async throws {
        var hasMore = true
        while hasMore {
            let page = try await backend.changes(since: cursor, limit: 1_000).outcome
            (cursor, hasMore) = (page.cursor, page.hasMore)
            let keys = page.changes.map(\.key).filter { $0.text.hasPrefix("\(other)/") }
            let results = try await backend.read(keys.map { ReadRequest($0) }).outcome
            let now = nanoseconds()
            for (key, result) in zip(keys, results) {
                guard case .found(let entry) = try result.get(),
                    let number = Int(String(decoding: entry.value, as: UTF8.self).dropFirst(other.count + 1))
                else {
                    throw BackendError(
                        .other, key: key, message: "the entry of a reported change is absent or malformed")
                }
                switch key.text {
                case "\(other)/here": break
                case "\(other)/ready": isReady = true
                case "\(other)/end": isAtEnd = true
                default: times[number] = now
                }
            }
        }
    }
}

/// Returns the time of the machine's monotonic clock.
private func nanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
