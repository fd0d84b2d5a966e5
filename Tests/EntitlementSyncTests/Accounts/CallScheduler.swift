import EntitlementSync
import SyncCore
import SyncCoreTesting
import Synchronization

/// Runs several processes over one backend, one call at a time, in an order that a test decides.
final class CallScheduler: Sendable {
    private struct State {
        var live: Set<Int> = []
        var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
        var choose: @Sendable (_ turn: Int, _ waiting: [Int]) -> Int
        var turn = 0
    }
    private let state: Mutex<State>

    /// - Parameter choose: Returns the process, one of `waiting`, that makes the next call.
    init(choose: @escaping @Sendable (_ turn: Int, _ waiting: [Int]) -> Int) {
        state = Mutex(State(choose: choose))
    }

    /// Runs all processes over `backend` until they have finished.
    func run(
        over backend: any KeyValueBackend, _ processes: [@Sendable (any KeyValueBackend) async throws -> Void]
    ) async throws {
        state.withLock { $0.live = Set(processes.indices) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, process) in processes.enumerated() {
                group.addTask {
                    defer { self.end(index) }
                    try await process(
                        FaultyBackend(backend) { _ in
                            await self.wait(index)
                            return nil
                        })
                }
            }
            try await group.waitForAll()
        }
    }

    private func wait(_ process: Int) async {
        await withCheckedContinuation { continuation in
            state.withLock { $0.waiting[process] = continuation }
            resumeNext()
        }
    }

    private func end(_ process: Int) {
        _ = state.withLock { $0.live.remove(process) }
        resumeNext()
    }

    /// Resumes one process once all running ones wait for their next call.
    private func resumeNext() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard !state.live.isEmpty, state.waiting.count == state.live.count else { return nil }
            let chosen = state.choose(state.turn, state.waiting.keys.sorted())
            state.turn += 1
            return state.waiting.removeValue(forKey: chosen)
        }
        next?.resume()
    }
}

/// A thread-safe set of accounts.
final class Accounts: Sendable {
    private let accounts = Mutex<Set<Account>>([])
    var all: Set<Account> { accounts.withLock { $0 } }
    func insert(_ account: Account) { accounts.withLock { _ = $0.insert(account) } }
}
