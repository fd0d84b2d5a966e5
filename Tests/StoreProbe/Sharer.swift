import Foundation
import SyncCore

/// One of two processes that use a store at the same time, as an app and `syncd` do: it writes without a pause, and
/// follows through signals and changes what the other writes.
///
/// What it tells in the end, a line each: `wrote NUMBER NANOSECONDS` for every acknowledged write, `saw NUMBER
/// NANOSECONDS` for every write of the other whose value it had read, and `raised TIMES` for the counter that both
/// share. The clock is the machine's, the same in all processes.
struct Sharer {
    private let backend: any KeyValueBackend
    private let name: String
    private let other: String

    init(_ backend: any KeyValueBackend, name: String, other: String) {
        (self.backend, self.name, self.other) = (backend, name, other)
    }

    /// Waits for the other, writes for `limit`, follows until the other has ended too, and answers what to tell.
    func run(for limit: Duration) async throws -> String {
        var follower = Follower(backend, of: other)
        // What a store does that is made, and asked for changes for the first time, is not measured.
        try await put(0, under: "here")
        try await follower.look()
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

    /// When each write was acknowledged, and how often the counter was raised.
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
                .other, message: "\(name)/\(suffix) is written by nobody else, and the answer: \(outcome)")
        }
    }
}

/// Reads what another process writes, when the store signals that something changed.
private struct Follower {
    private let backend: any KeyValueBackend
    private let other: String
    private let signals: AsyncStream<Void>
    private var cursor: ChangeCursor?
    /// When each write had been read.
    private(set) var times: [Int: UInt64] = [:]
    /// Whether the other is about to write.
    private(set) var isReady = false
    /// Whether the other has written its last.
    private(set) var isAtEnd = false

    init(_ backend: any KeyValueBackend, of other: String) {
        (self.backend, self.other) = (backend, other)
        signals = backend.signals()
    }

    mutating func follow(until condition: (Follower) -> Bool) async throws {
        var iterator = signals.makeAsyncIterator()
        while !condition(self) {
            guard await iterator.next() != nil else {
                throw BackendError(.other, message: "the signals ended before \(other) did")
            }
            try await look()
        }
    }

    mutating func look() async throws {
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
                else { throw BackendError(.other, key: key, message: "a change is told and its entry is not there") }
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

/// The machine's clock, the same in all processes.
private func nanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
