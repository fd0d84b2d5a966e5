import BenchmarkSupport
import Foundation
import LoadTesting
import UnixSignals

/// Puts load on a server and prints its rates and latencies.
@main
enum ServerLoad {
    static func main() async {
        let settings = LoadSettings()
        raiseFileLimit()
        do {
            let outcome = try await settings.requestFile == nil ? withAccounts(settings) : withRequests(settings)
            print(try settings.isJSON ? outcome.json(settings) : outcome.text(settings).joined(separator: "\n"))
            if let problem = outcome.problem { exitWithFailure(problem) }
        } catch {
            exitWithFailure("\(settings.origin): \(error)")
        }
    }

    /// Raises the limit of open files, one for each connection, as far as it goes.
    private static func raiseFileLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    private static func withRequests(_ settings: LoadSettings) async throws -> LoadOutcome {
        let plan = settings.plan(of: try GivenRequest.read(settings.requestFile ?? "", at: settings.target))
        let (report, wasInterrupted) = await interruptible { try await LoadRun.run(plan, at: settings.target) }
        return LoadOutcome(report: try report.get(), wasInterrupted: wasInterrupted)
    }

    /// Runs with accounts that are erased in the end, after an interruption or a failure, too.
    private static func withAccounts(_ settings: LoadSettings) async throws -> LoadOutcome {
        let accounts = LoadAccounts(settings.accountCount, at: settings.target)
        let (report, wasInterrupted) = await interruptible {
            try await accounts.make()
            let plan = try await settings.plan(of: accounts)
            return try await accounts.keepingSessions { try await LoadRun.run(plan, at: settings.target) }
        }
        // A second interruption leaves accounts behind, which the outcome says.
        _ = await interruptible { await accounts.erase() }
        if case .failure(let error) = report, let remainder = accounts.remainder {
            throw LoadFailure(description: "\(error); \(remainder)")
        }
        return LoadOutcome(
            report: try report.get(), wasInterrupted: wasInterrupted, remainder: accounts.remainder)
    }

    /// Runs `work`, and cancels it on SIGINT and SIGTERM.
    private static func interruptible<Value: Sendable>(
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

/// A failure that is described in one sentence.
struct LoadFailure: Error, CustomStringConvertible { let description: String }
