package import Entitlements

/// The state of a store's current account at one moment.
package struct CurrentState: Sendable {
    /// The account that is in use.
    package let account: Account
    /// The facts and their replay.
    package let replay: Replay
    /// The periods, products, balances and access by now.
    package let snapshot: Snapshot
    /// The id under which this device records; `nil` before the first recording.
    package let replica: ReplicaID?
    /// The number of pieces of evidence that wait for the server's answer.
    package let waitingEvidenceCount: Int
}

extension EntitlementStore {
    /// Returns the state of the current account, read as one batch.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    package func currentState() async throws(EntitlementError) -> CurrentState {
        let session = session
        let state = try await load(session)
        return CurrentState(
            account: session.account, replay: state.replay, snapshot: try snapshot(of: state, in: session),
            replica: (try? state.replica.get())?.id, waitingEvidenceCount: state.waitingEvidence.count)
    }
}
