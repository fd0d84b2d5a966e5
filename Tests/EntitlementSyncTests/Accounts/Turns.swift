import EntitlementSync
import SyncCore
import SyncCoreTesting
import Synchronization

/// Processes that work on one store, of which one at a time makes its next call, in an order that a test decides.
final class Turns: Sendable {
    private struct State {
        var live: Set<Int> = []
        var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
        var choose: @Sendable (_ turn: Int, _ waiting: [Int]) -> Int
        var turn = 0
    }
    private let state: Mutex<State>

    /// - Parameter choose: which of the processes that wait makes its call.
    init(choose: @escaping @Sendable (_ turn: Int, _ waiting: [Int]) -> Int) {
        state = Mutex(State(choose: choose))
    }

    /// Runs all processes, each over `backend`, to their ends.
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
            goOn()
        }
    }

    private func end(_ process: Int) {
        _ = state.withLock { $0.live.remove(process) }
        goOn()
    }

    /// When everybody who lives waits, the next one goes on.
    private func goOn() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard !state.live.isEmpty, state.waiting.count == state.live.count else { return nil }
            let chosen = state.choose(state.turn, state.waiting.keys.sorted())
            state.turn += 1
            return state.waiting.removeValue(forKey: chosen)
        }
        next?.resume()
    }
}

/// Accounts, as several tasks come by them.
final class Accounts: Sendable {
    private let accounts = Mutex<Set<Account>>([])
    var all: Set<Account> { accounts.withLock { $0 } }
    func insert(_ account: Account) { accounts.withLock { _ = $0.insert(account) } }
}
