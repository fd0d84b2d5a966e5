import Entitlements
import SyncCore

/// A grant in the local store.
struct HeldGrant: Sendable {
    let version: EntryVersion
    /// The id of the device that the grant was verified for.
    let device: [UInt8]?
    /// The verified grant, or the check that it failed.
    let content: Result<SignedGrant, GrantError>
}

extension AccountSession {
    /// Decodes the answers to the reads of this device's id and of the account's grant.
    ///
    /// - Parameter cached: The grant that was verified before, whose version the read of the grant has named.
    func decodeGrant(
        device identity: Result<ReadOutcome, BackendError>, grant: Result<ReadOutcome, BackendError>, cached: HeldGrant?
    ) -> Result<HeldGrant?, EntitlementError> {
        guard let verifier = dependencies.trust.verifier else { return .success(nil) }
        do throws(BackendError) {
            var id: [UInt8]?
            if case .found(let entry) = try identity.get() { id = entry.value }
            switch try grant.get() {
            case .absent: return .success(nil)
            case .unchanged:
                guard let cached, cached.device != id else { return .success(cached) }
                return .success(HeldGrant(version: cached.version, device: id, content: .failure(Self.foreign)))
            case .found(let entry):
                let content: Result<SignedGrant, GrantError>
                do throws(GrantError) {
                    let grant = try verify(entry.value, id, verifier)
                    // A clock that is behind the signature is wrong.
                    dependencies.clock.raise(toSignedDate: grant.issued)
                    content = .success(grant)
                } catch {
                    content = .failure(error)
                }
                return .success(HeldGrant(version: entry.version, device: id, content: content))
            }
        } catch {
            return .failure(EntitlementError(error))
        }
    }

    private static let foreign = GrantError(.device, "the id of this device has changed")

    /// Verifies that `bytes` are a grant for this account, device and environment.
    func verify(
        _ bytes: [UInt8], _ device: [UInt8]?, _ verifier: any GrantVerifier
    ) throws(GrantError) -> SignedGrant {
        guard let name = account.name, let device = device.flatMap({ String(validating: $0, as: UTF8.self) }) else {
            throw GrantError(.device, "this device has no id, or no account is logged in")
        }
        let grant = try verifier.verify(bytes, account: (name, account.incarnation), device: device)
        guard grant.environment == dependencies.environment else {
            throw GrantError(
                .environment,
                "the grant is for \(grant.environment.rawValue.singleLine), and the store counts "
                    + dependencies.environment.rawValue.singleLine)
        }
        return grant
    }

    /// Creates the id of this device in grants, unless there is one. Returns the stored one.
    func createGrantDevice() async throws(EntitlementError) -> [UInt8] {
        var generator = dependencies.host.generator
        let new = Array("\(ReplicaID.random(using: &generator))".utf8)
        let stored = try await dependencies.local.update(keys.grantDevice) { (entry) throws(EntitlementError) in
            entry == nil ? new : nil
        }
        return stored?.value ?? new
    }

    /// Keeps `bytes` as the account's grant, unless another process has stored one that was signed later, and not in
    /// the future.
    func keep(
        grant bytes: [UInt8], issued: Timestamp, _ device: [UInt8], _ verifier: any GrantVerifier
    ) async throws(EntitlementError) {
        _ = try await dependencies.local.update(grantKey) { (entry) throws(EntitlementError) in
            guard let held = entry.flatMap({ try? verify($0.value, device, verifier) }),
                EntitlementStore.isUsable(held, at: dependencies.clock.now)
            else { return bytes }
            return held.issued <= issued ? bytes : nil
        }
    }
}

extension EntitlementStore {
    /// The amount by which the signature of a grant may be ahead of the trusted clock, in milliseconds.
    private static let clockTolerance: Int64 = 300_000

    /// Returns `true` unless the grant was signed in the future.
    fileprivate static func isUsable(_ grant: SignedGrant, at now: Timestamp) -> Bool {
        grant.issued.milliseconds - now.milliseconds <= clockTolerance
    }

    /// The most access that the account's grant permits; `nil` if the store needs no grants.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` if the grant could not be read.
    func limit(of state: LocalState, at now: Timestamp) throws(EntitlementError) -> AccessLimit? {
        guard trust.verifier != nil else { return nil }
        guard let held = try state.grant.get(), case .success(let grant) = held.content,
            Self.isUsable(grant, at: now)
        else { return .nothing }
        return grant.limit(grace: trust.grace)
    }

    /// Fetches a grant if the store needs one, and the facts have changed since the last one, or grant more than it
    /// confirms, or half of its life has passed.
    ///
    /// - Returns: The state with the grant.
    /// - Throws: ``EntitlementError`` of kind `sync` if the server gives none, or one that is refused.
    func renewGrant(of session: AccountSession, in state: LocalState) async throws(EntitlementError) -> LocalState {
        guard let verifier = trust.verifier else { return state }
        let versions = [state.account.version, state.serverLedger.version]
        guard isGrantDue(in: state, versions, of: session) else { return state }
        guard let server else {
            throw EntitlementError(
                .sync, "trust: this store has no server that signs grants: pass one with --root-key, or use .ledger")
        }
        let device = try await session.createGrantDevice()
        let bytes: [UInt8]
        do throws(BackendError) {
            bytes = try await server.grant(
                device: String(decoding: device, as: UTF8.self), environment: environment)
        } catch {
            throw EntitlementError(remote: error)
        }
        let grant: SignedGrant
        do throws(GrantError) {
            grant = try session.verify(bytes, device, verifier)
            let now = now
            guard grant.expires > now, Self.isUsable(grant, at: now) else {
                throw GrantError(
                    .time, "the grant is valid from \(grant.issued) to \(grant.expires), and it is \(now)")
            }
        } catch {
            throw EntitlementError(.sync, "trust: the server's grant is refused: \(error)")
        }
        try await session.keep(grant: bytes, issued: grant.issued, device, verifier)
        session.rememberGrant(of: versions)
        return try await session.read()
    }

    private func isGrantDue(
        in state: LocalState, _ versions: [EntryVersion?], of session: AccountSession
    ) -> Bool {
        guard session.isGrantCurrent(for: versions), case .success(let held?) = state.grant,
            case .success(let grant) = held.content
        else { return true }
        let (now, half) = (now, (grant.expires.milliseconds - grant.issued.milliseconds) / 2)
        guard Self.isUsable(grant, at: now), now.milliseconds - grant.issued.milliseconds < half else { return true }
        // A purchase may be dated after the grant, by a clock that is ahead of the server's.
        let confirmed = grant.limit().ends
        return catalog.entitlements.contains { entitlement in
            guard case .granted(let held)? = state.replay.access(to: entitlement.id, at: now) else { return false }
            return confirmed[entitlement.id].map { held.until ?? .latest > $0 } ?? true
        }
    }
}
