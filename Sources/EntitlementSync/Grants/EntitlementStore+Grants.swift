import Entitlements
import SyncCore

/// A grant in the local store.
struct HeldGrant: Sendable {
    let version: EntryVersion
    /// The device that the grant was verified for.
    let device: ReplicaID?
    /// The verified grant, or the check that it failed.
    let content: Result<SignedGrant, GrantError>
}

extension AccountSession {
    /// Decodes the answer to the read of the account's grant.
    ///
    /// - Parameters:
    ///   - result: The answer; `nil` if the store needs no grants.
    ///   - device: The id of this device.
    ///   - cached: The grant that was verified before.
    func decodeGrant(
        _ result: Result<ReadOutcome, BackendError>?, for device: ReplicaID?, cached: HeldGrant?
    ) -> Result<HeldGrant?, EntitlementError> {
        guard let result, let verifier = dependencies.trust.verifier else { return .success(nil) }
        switch result {
        case .failure(let error): return .failure(EntitlementError(error))
        case .success(.absent): return .success(nil)
        case .success(.unchanged): return .success(cached)
        case .success(.found(let entry)):
            if let cached, cached.version == entry.version, cached.device == device { return .success(cached) }
            return .success(hold(entry.value, version: entry.version, device, verifier))
        }
    }

    private func hold(
        _ bytes: [UInt8], version: EntryVersion, _ device: ReplicaID?, _ verifier: any GrantVerifier
    ) -> HeldGrant {
        let content: Result<SignedGrant, GrantError>
        do throws(GrantError) {
            let grant = try verify(bytes, device, verifier)
            // A clock that is behind the signature is wrong.
            dependencies.clock.noteSignedDate(grant.issued)
            content = .success(grant)
        } catch {
            content = .failure(error)
        }
        return HeldGrant(version: version, device: device, content: content)
    }

    /// Verifies that `bytes` are a grant for this account, device and environment.
    func verify(
        _ bytes: [UInt8], _ device: ReplicaID?, _ verifier: any GrantVerifier
    ) throws(GrantError) -> SignedGrant {
        guard let name = account.name, let device else {
            throw GrantError(.device, "this device has no id, or no account is logged in")
        }
        let grant = try verifier.verify(bytes, account: (name, account.incarnation), device: "\(device)")
        guard grant.environment == dependencies.environment else {
            throw GrantError(
                .environment,
                "the grant is for \(grant.environment.rawValue.singleLine), and the store counts "
                    + dependencies.environment.rawValue.singleLine)
        }
        return grant
    }

    /// Keeps `bytes` as the account's grant.
    func note(grant bytes: [UInt8]) async throws(EntitlementError) {
        do throws(BackendError) {
            _ = try await dependencies.local.update(keys.grant) { (entry) throws(BackendError) in
                entry?.value == bytes ? nil : bytes
            }
        } catch {
            throw EntitlementError(error)
        }
    }
}

extension EntitlementStore {
    /// The amount by which the signature of a grant may be ahead of the trusted clock, in milliseconds.
    private static let clockTolerance: Int64 = 300_000

    /// The most access that the account's grant permits; `nil` if the store needs no grants.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` if the grant could not be read.
    func limit(of state: LocalState, at now: Timestamp) throws(EntitlementError) -> AccessLimit? {
        guard dependencies.trust.verifier != nil else { return nil }
        guard let held = try state.grant.get(), case .success(let grant) = held.content,
            grant.issued.milliseconds - now.milliseconds <= Self.clockTolerance
        else { return .nothing }
        return grant.limit(grace: dependencies.trust.grace)
    }

    /// Fetches a grant if the store needs one, and the facts have changed since the last one, or grant more than it
    /// confirms, or half of its life has passed.
    ///
    /// - Returns: The state with the grant.
    /// - Throws: ``EntitlementError`` of kind `sync` if the server gives none, or one that is refused.
    func renewGrant(of session: AccountSession, in state: LocalState) async throws(EntitlementError) -> LocalState {
        guard let verifier = dependencies.trust.verifier else { return state }
        let versions = [state.account.version, state.decisions.version]
        guard isGrantDue(in: state, versions, of: session) else { return state }
        guard let issuer = remote?.grantIssuer else {
            throw EntitlementError(
                .sync, "trust: the remote is no server that signs grants: use a server with --root-key, or .ledger")
        }
        let device = try await session.createReplica()
        let bytes: [UInt8]
        do throws(BackendError) {
            bytes = try await issuer.grant(device: "\(device)", environment: environment.rawValue)
        } catch {
            throw EntitlementError(remote: error)
        }
        do throws(GrantError) {
            let grant = try session.verify(bytes, device, verifier)
            let now = now
            guard grant.expires > now, grant.issued.milliseconds - now.milliseconds <= Self.clockTolerance else {
                throw GrantError(
                    .time, "the grant is valid from \(grant.issued) to \(grant.expires), and it is \(now)")
            }
        } catch {
            throw EntitlementError(.sync, "trust: the server's grant is refused: \(error)")
        }
        try await session.note(grant: bytes)
        session.noteGrant(of: versions)
        return try await session.read()
    }

    private func isGrantDue(
        in state: LocalState, _ versions: [EntryVersion?], of session: AccountSession
    ) -> Bool {
        guard session.isGrantCurrent(for: versions), case .success(let held?) = state.grant,
            case .success(let grant) = held.content
        else { return true }
        let (now, half) = (now, (grant.expires.milliseconds - grant.issued.milliseconds) / 2)
        guard now.milliseconds - grant.issued.milliseconds < half else { return true }
        // A purchase may be dated after the grant, by a clock that is ahead of the server's.
        let confirmed = grant.limit().ends
        return catalog.entitlements.contains { entitlement in
            confirmed[entitlement.id] == nil
                && state.replay.access(to: entitlement.id, at: now)?.isGranted == true
        }
    }
}
