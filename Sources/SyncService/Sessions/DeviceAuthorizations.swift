import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore

/// Log-ins of devices without a keyboard (RFC 8628): the device shows a code, and its owner approves it elsewhere.
struct DeviceAuthorizations: Sendable {
    let records: RecordStore
    let sessions: Sessions
    let credentials: Credentials
    let slots: DeviceSlots

    /// The lifetime of a code, in milliseconds.
    static let lifetime: Int64 = 600_000
    /// The shortest interval between two requests of a waiting device, in milliseconds.
    static let interval: Int64 = 5_000

    /// Returns `true` if a code has expired. A code that would be valid for too long was created while the clock was
    /// wrong.
    static func isOver(expires: Int64, at now: Int64) -> Bool {
        expires <= now || expires - now > lifetime + ClockRollbackGuard.tolerance
    }

    /// A waiting device, stored under `server/devices/CODE`.
    private struct Waiting: Codable, Hashable, Sendable {
        /// The digest of the device's secret, in hexadecimal.
        var secret: String
        var expires: Int64
        var lastAsked: Int64?
        /// The account that approved the device, with the incarnation and the credential epoch of the approval. The
        /// approval is void if either has changed.
        var account: String?
        var incarnation: String?
        var epoch: Int64?
        var isDenied = false

        func isOver(at now: Int64) -> Bool { DeviceAuthorizations.isOver(expires: expires, at: now) }
    }

    /// The expiry of a code, stored under `server/expiries/TIME-CODE`. Expired codes are deleted in this order.
    private struct Expiry: Codable, Hashable, Sendable {
        var code: String
        var expires: Int64
    }

    /// The codes that a device receives.
    struct Codes: Sendable {
        var device: String
        var user: String
    }

    /// Registers a waiting device.
    ///
    /// - Throws: ``RequestError`` if too many devices are already waiting.
    func begin(for peer: String) async throws -> Codes {
        let now = credentials.host.now()
        let secret = Hexadecimal.text(credentials.host.randomBytes(32))
        let waiting = Waiting(secret: hexadecimalDigest(of: secret), expires: now + Self.lifetime)
        try slots.take(waiting.secret, for: peer, until: waiting.expires, now: now)
        do {
            try await clear(now)
            let code = try await store(waiting)
            return Codes(device: "\(code).\(secret)", user: "\(code.prefix(4))-\(code.suffix(4))")
        } catch {
            slots.release(waiting.secret)
            throw error
        }
    }

    /// Stores a waiting device under a new code.
    private func store(_ waiting: Waiting) async throws(BackendError) -> String {
        // Consonants that are hard to confuse. Without vowels they form no words (RFC 8628, section 6.1).
        let alphabet = Array("BCDFGHJKLMNPQRSTVWXZ".utf8)
        for _ in 0..<8 {
            var letters: [UInt8] = []
            while letters.count < 8 {
                // Using bytes from 240 on would make some letters more likely than others.
                letters += credentials.host.randomBytes(16).filter { $0 < 240 }.map { alphabet[Int($0) % 20] }
            }
            let code = String(decoding: letters.prefix(8), as: UTF8.self)
            // The expiry is written first, so that no code is ever without one.
            let expiry = Expiry(code: code, expires: waiting.expires)
            _ = try await records.replace(try Self.key(of: expiry), with: expiry, if: nil)
            if try await records.replace(try Self.key(code), with: waiting, if: nil) { return code }
        }
        throw BackendError(.busy, message: "no code is free; try again")
    }

    /// Approves or denies the device that shows `text`.
    ///
    /// - Parameter credential: The credential that authorizes the decision. An approval is valid only in its epoch.
    func decide(
        _ text: String, isApproved: Bool, by credential: VerifiedCredential, peer: String
    ) async throws {
        let code = text.uppercased().filter { ("A"..."Z").contains($0) }
        let now = credentials.host.now()
        let decided = try await credentials.guesses.attempt(peer, .deviceCodes(credential.name), now: now) {
            () async throws -> Waiting? in
            guard code.utf8.count == 8 else { return nil }
            return try await records.update(try Self.key(code)) { (known: Waiting?) throws(BackendError) in
                guard var waiting = known, !waiting.isOver(at: now), waiting.account == nil, !waiting.isDenied else {
                    return nil
                }
                waiting.isDenied = !isApproved
                if isApproved {
                    waiting.account = credential.name
                    (waiting.incarnation, waiting.epoch) = (credential.account.incarnation, credential.epoch)
                }
                return waiting
            }
        }
        guard decided != nil else {
            throw RequestError(.notFound, "no device is waiting with this code; it may have expired")
        }
        // The device cannot redeem such an approval, and its code is used up.
        if isApproved, try await !credentials.isCurrent(credential) {
            throw RequestError(
                .forbidden,
                "the account was erased, or its password or sessions changed, while this was under way; log in, and "
                    + "begin again on the device")
        }
    }

    /// Begins a session for an approved device. A code works once.
    func redeem(_ deviceCode: String) async throws -> IssuedSession {
        let parts = deviceCode.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        let unknown = RequestError(.badRequest, "no device is waiting with this code", code: "invalid_grant")
        guard parts.count == 2, parts[0].utf8.count == 8, parts[0].utf8.allSatisfy({ (0x41...0x5A).contains($0) })
        else { throw unknown }
        let (code, now) = (parts[0], credentials.host.now())
        let key = try Self.key(code)
        guard let held = try await records.read(key, as: Waiting.self),
            held.value.secret == hexadecimalDigest(of: parts[1])
        else {
            throw unknown
        }
        var waiting = held.value
        guard !waiting.isOver(at: now) else {
            throw RequestError(.badRequest, "the code has expired; begin again", code: "expired_token")
        }
        if waiting.account == nil, !waiting.isDenied {
            let isHasty = waiting.lastAsked.map { now >= $0 && now - $0 < Self.interval } == true
            waiting.lastAsked = now
            _ = try await records.replace(key, with: waiting, if: held.version)
            throw isHasty
                ? RequestError(.badRequest, "poll at most every 5 s", code: "slow_down")
                : RequestError(.badRequest, "the device is not approved yet", code: "authorization_pending")
        }
        guard try await remove(code, held) else { throw unknown }
        if waiting.isDenied { throw RequestError(.badRequest, "the device was denied", code: "access_denied") }
        guard let name = waiting.account,
            let credential = try await credentials.check(
                approvalBy: name, incarnation: waiting.incarnation, epoch: waiting.epoch)
        else { throw unknown }
        return try await sessions.begin(credential)
    }

    /// Deletes the approvals of an account that is being erased. They are void, and contain its name.
    static func removeApprovals(
        of account: Account, _ records: RecordStore, onError: (BackendError) -> Void
    ) async throws(BackendError) {
        try await records.forEach(under: prefix, as: Waiting.self, onError: onError) {
            (key, held) throws(BackendError) in
            guard held.value.account == account.name, held.value.incarnation == account.incarnation else { return }
            _ = try await records.replace(key, with: Waiting?.none, if: held.version)
        }
    }

    /// Deletes a code together with its expiry, and releases its slot.
    ///
    /// - Returns: `false` if another request deleted it first.
    private func remove(_ code: String, _ held: RecordStore.Versioned<Waiting>) async throws(BackendError) -> Bool {
        guard try await records.replace(try Self.key(code), with: Waiting?.none, if: held.version) else { return false }
        slots.release(held.value.secret)
        let key = try Self.key(of: Expiry(code: code, expires: held.value.expires))
        if let expiry = try await records.read(key, as: Expiry.self) {
            _ = try await records.replace(key, with: Expiry?.none, if: expiry.version)
        }
        return true
    }

    /// Deletes the oldest expired codes, one page for each new code.
    private func clear(_ now: Int64) async throws(BackendError) {
        let page = try await records.backend.list(prefix: Self.expiries, after: nil, limit: 32).outcome
        for item in page.items {
            guard let expiry = try await records.read(item.key, as: Expiry.self) else { continue }
            guard expiry.value.expires <= now else { return }
            let key = try Self.key(expiry.value.code)
            if let held = try await records.read(key, as: Waiting.self), held.value.isOver(at: now) {
                _ = try await records.replace(key, with: Waiting?.none, if: held.version)
            }
            _ = try await records.replace(item.key, with: Expiry?.none, if: expiry.version)
        }
    }

    private static let expiries = KeyScope.serverPrefix + "expiries/"

    private static let prefix = KeyScope.serverPrefix + "devices/"

    private static func key(_ code: String) throws(BackendError) -> EntryKey { try EntryKey(prefix + code) }

    /// The time is padded to a fixed number of digits, so that the order of the keys is the order of the times.
    private static func key(of expiry: Expiry) throws(BackendError) -> EntryKey {
        let time = "\(max(0, expiry.expires))"
        let zeros = String(repeating: "0", count: 19 - time.utf8.count)
        return try EntryKey(expiries + zeros + time + "-" + expiry.code)
    }
}
