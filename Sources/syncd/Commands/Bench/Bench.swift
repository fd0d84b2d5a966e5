import ArgumentParser
import CurlTransport
import Entitlements
import Foundation
import LoadTesting
import SyncCore
import UnixSignals

struct Bench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bench", abstract: "Put load on your own server, and measure what it does.",
        discussion: """
            It makes accounts of its own, bench-RANDOM-0 and on, and erases them at the end. Without --rate every \
            connection asks as soon as it has an answer; with it requests are due at fixed instants, and a latency \
            counts from then, however late the request could be sent.

            WORK is read, read-unchanged (answered by 304), write (each on condition that its key has the version of \
            the answer before), mixed, login, or watch: each connection follows its account's changes, and it is \
            measured when it hears of a write.

            Examples:
              syncd bench http://127.0.0.1:8440
              syncd bench http://127.0.0.1:8440 --work mixed --rate 2000 --seconds 60
              syncd bench http://127.0.0.1:8440 --work watch --connections 1000 --accounts 100 --rate 50
            """)

    @Argument(help: "The server: http://HOST:PORT or https://HOST.")
    var url: String

    @Option(help: "What is done: read, read-unchanged, write, mixed, login or watch.")
    var work = "read"

    @Option(help: "For how many seconds, 1 to 3600.")
    var seconds = 10

    @Option(help: "How many connections, 1 to 20000.")
    var connections = 16

    @Option(help: "How many accounts, 1 to 20000; as many as there are connections, and not more than 16.")
    var accounts: Int?

    @Option(help: "The size of the documents in bytes, 1 to 1048576.")
    var size = 300

    @Option(help: "So many requests a second; for watch so many writes, 10 when not given.")
    var rate: Double?

    @Option(help: "How many of a hundred requests are writes, for mixed.")
    var writes = 10

    @Flag(help: "For watch: after half of the time all connections are closed and opened again at once.")
    var reconnect = false

    @Option(help: "How many threads make the requests, 1 to 64; a half of the processors when not given.")
    var threads: Int?

    @Option(
        help: ArgumentHelp(
            "Ask what this file says instead, of whatever server there is, and make no accounts: a line a request, "
                + "{\"method\":…,\"path\":…,\"fields\":{…},\"body\":…}.", valueName: "file"))
    var requests: String?

    @Flag(help: "Yes, put load on a server that is not this machine.")
    var allowRemote = false

    @Option(help: ArgumentHelp("Believe the certificates in this file, PEM, and no others.", valueName: "file"))
    var caFile: String?

    @OptionGroup var output: OutputOptions

    func run() async throws {
        let server = try BenchServer(url, allowRemote: allowRemote, caFile: caFile)
        let settings = try settings()
        raiseFileLimit(settings)
        let outcome = try await requests == nil ? ownWork(server, settings) : givenWork(server, settings)
        try output.show(
            outcome.json(server.origin, settings), or: outcome.text(server.origin, settings).joined(separator: "\n"))
        try outcome.check()
    }

    private func settings() throws(Failure) -> BenchSettings {
        guard let kind = BenchSettings.Work(rawValue: work) else {
            let names = BenchSettings.Work.allCases.map(\.rawValue).joined(separator: ", ")
            throw Failure(.usage, "--work: \"\(work.singleLine)\" is none of \(names)")
        }
        let processors = ProcessInfo.processInfo.activeProcessorCount
        let settings = BenchSettings(
            work: kind, isGiven: requests != nil, seconds: seconds, connectionCount: connections,
            accountCount: accounts ?? min(connections, 16),
            byteCount: size, rate: rate ?? (kind == .watch ? 10 : nil), writeShare: writes, reopens: reconnect,
            loopCount: threads ?? max(1, processors / 2))
        try Self.check(seconds, 1...3_600, "--seconds")
        try Self.check(connections, 1...20_000, "--connections")
        try Self.check(settings.accountCount, 1...20_000, "--accounts")
        try Self.check(size, 1...(1 << 20), "--size")
        try Self.check(writes, 0...100, "--writes")
        try Self.check(settings.loopCount, 1...64, "--threads")
        if let rate, !(rate >= 0.1 && rate <= 1_000_000) {
            throw Failure(.usage, "--rate: \(rate) is no number of requests a second from 0.1 to 1000000")
        }
        guard kind == .watch || !reconnect else {
            throw Failure(.usage, "--reconnect closes the event streams of --work watch; there are none otherwise")
        }
        if kind == .watch, settings.accountCount > connections {
            throw Failure(
                .usage, "--accounts: \(settings.accountCount) accounts need as many --connections to be watched")
        }
        return settings
    }

    private static func check(_ value: Int, _ range: ClosedRange<Int>, _ option: String) throws(Failure) {
        guard range.contains(value) else {
            throw Failure(.usage, "\(option): \(value) is not from \(range.lowerBound) to \(range.upperBound)")
        }
    }

    /// Every connection is an open file. Where not as many are allowed, connecting fails, and says so.
    private func raiseFileLimit(_ settings: BenchSettings) {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    private func givenWork(_ server: BenchServer, _ settings: BenchSettings) async throws -> BenchOutcome {
        let lines = try readDocument(requests ?? "") { try BenchRequest.read($0, at: server.target) }
        let plan = settings.plan(of: lines)
        let (result, wasInterrupted) = await Interruptible.run { try await BenchOutcome(server.run(plan)) }
        var outcome = try result.get()
        outcome.wasInterrupted = wasInterrupted
        return outcome
    }

    /// Erases the accounts, however it goes.
    private func ownWork(_ server: BenchServer, _ settings: BenchSettings) async throws -> BenchOutcome {
        let accounts = try BenchAccounts(settings.accountCount, at: server, host: .system)
        let (result, wasInterrupted) = await Interruptible.run {
            try await accounts.make()
            let plan = try await settings.plan(of: accounts, at: server.target)
            return try await accounts.keepingSessions { try await BenchOutcome(server.run(plan)) }
        }
        // Who interrupts this, too, is told what is left.
        _ = await Interruptible.run { await accounts.erase() }
        var outcome: BenchOutcome
        do { outcome = try result.get() } catch {
            let reason = wasInterrupted ? Failure(.failed, "interrupted") : Failure(error)
            guard let names = accounts.leftOver else { throw reason }
            throw Failure(.failed, "\(reason.message); \(names)")
        }
        (outcome.wasInterrupted, outcome.leftOver) = (wasInterrupted, accounts.leftOver)
        return outcome
    }
}

/// Work that SIGINT and SIGTERM end early, so that there is time to tidy up.
enum Interruptible {
    static func run<Value: Sendable>(
        _ work: @escaping @Sendable () async throws -> Value
    ) async -> (result: Result<Value, any Error>, wasInterrupted: Bool) {
        await withTaskGroup(of: Result<Value, any Error>?.self) { group in
            group.addTask {
                do { return .success(try await work()) } catch { return .failure(error) }
            }
            group.addTask {
                for await _ in await UnixSignalsSequence(trapping: .sigint, .sigterm) { break }
                return nil
            }
            var result: Result<Value, any Error>?
            var wasInterrupted = false
            while let next = await group.next() {
                if let next { result = next } else if result == nil { wasInterrupted = true }
                group.cancelAll()
            }
            return (result ?? .failure(CancellationError()), wasInterrupted)
        }
    }
}
