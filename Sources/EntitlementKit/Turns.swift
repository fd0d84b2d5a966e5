/// Lets callers run one after another, in the order in which they arrive.
@MainActor
final class Turns {
    private var isTaken = false
    private var waiters: [CheckedContinuation<Void, Never>] = []

    /// Runs `body` while no other caller runs its own.
    func exclusively<Outcome>(
        _ body: @MainActor () async throws(ShopError) -> Outcome
    ) async throws(ShopError) -> Outcome {
        if isTaken { await withCheckedContinuation { waiters.append($0) } }
        isTaken = true
        defer {
            // The next caller takes over without a gap.
            if waiters.isEmpty { isTaken = false } else { waiters.removeFirst().resume() }
        }
        return try await body()
    }
}
