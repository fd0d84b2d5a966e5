import EntitlementSync
import HTTPTypes
import SyncCore

/// Log-ins of devices without a keyboard (RFC 8628): the device shows a code, its owner approves it elsewhere.
struct DeviceGrants: Sendable {
    let records: RecordStore
    let sessions: Sessions
    let guesses: GuessLimiter
    let cryptography: any ServiceCryptography
    let host: HostServices
    let codes: DeviceCodeCount

    /// How long a code lives, in milliseconds.
    static let lifetime: Int64 = 600_000
    /// How long a device has to wait between two questions, in milliseconds.
    static let interval: Int64 = 5_000

    /// A device that waits, in `server/devices/CODE`.
    private struct Waiting: Codable, Hashable, Sendable {
        /// The digest of what the device proves itself with, in hexadecimal.
        var secret: String
        var expires: Int64
        var lastAsked: Int64?
        /// Who approved it, in which life, and in which epoch of it: whoever ends all sessions ends this one before it
        /// has begun, and whoever gets the name after an erasure has approved nothing.
        var account: String?
        var incarnation: String?
        var epoch: Int64?
        var isDenied = false

        /// Whether it waits no longer; one that would wait for longer than any was begun while the clock was wrong.
        func isOver(at now: Int64) -> Bool {
            expires <= now || expires - now > DeviceGrants.lifetime + ClockRollbackGuard.tolerance
        }
    }

    /// When a code expires, in `server/expiries/TIME-CODE`: by this order they are deleted.
    private struct Expiry: Codable, Hashable, Sendable {
        var code: String
        var expires: Int64
    }

    /// What the device gets.
    struct Codes: Sendable {
        var device: String
        var user: String
    }

    /// Lets a device wait, unless too many do.
    func begin() async throws -> Codes {
        let now = host.now()
        if let delay = codes.add(at: now) {
            throw RequestError(
                .serviceUnavailable, "too many devices wait to be approved; try again", retryAfter: delay)
        }
        try await clear(now)
        // Letters that are hard to mistake, and no vowels, so that no word comes of them (RFC 8628, section 6.1).
        let alphabet = Array("BCDFGHJKLMNPQRSTVWXZ".utf8)
        for _ in 0..<8 {
            var letters: [UInt8] = []
            while letters.count < 8 {
                // Bytes of 240 and more would make some letters likelier than others.
                letters += cryptography.randomBytes(16).filter { $0 < 240 }.map { alphabet[Int($0) % 20] }
            }
            let code = String(decoding: letters.prefix(8), as: UTF8.self)
            let secret = Hexadecimal.text(cryptography.randomBytes(32))
            let waiting = Waiting(secret: digest(secret), expires: now + Self.lifetime)
            // First, so that none is left over.
            let expiry = Expiry(code: code, expires: waiting.expires)
            _ = try await records.replace(try Self.key(of: expiry), with: expiry, if: nil)
            if try await records.replace(try Self.key(code), with: waiting, if: nil) {
                return Codes(device: "\(code).\(secret)", user: "\(code.prefix(4))-\(code.suffix(4))")
            }
        }
        throw BackendError(.busy, message: "no code is free; try again")
    }

    /// Says yes or no to the device that shows `text`, in the name of `caller`.
    func decide(_ text: String, isApproved: Bool, by caller: AccountCaller, peer: String) async throws {
        guard let name = caller.account.name, !caller.isErased else {
            throw RequestError(.forbidden, "the account was erased")
        }
        let approver = try await records.read(try AccountRecord.key(of: name), as: AccountRecord.self)?.value
        guard let approver, approver.living == caller.account else {
            throw RequestError(.forbidden, "the account was erased")
        }
        let code = text.uppercased().filter { ("A"..."Z").contains($0) }
        let now = host.now()
        let decided = try await guesses.attempt(peer, "device codes of \(name)", now: now) {
            () async throws -> Waiting? in
            guard code.utf8.count == 8 else { return nil }
            return try await records.update(try Self.key(code)) { (known: Waiting?) throws(BackendError) in
                guard var waiting = known, !waiting.isOver(at: now), waiting.account == nil, !waiting.isDenied else {
                    return nil
                }
                (waiting.account, waiting.isDenied) = (isApproved ? name : nil, !isApproved)
                if isApproved { (waiting.incarnation, waiting.epoch) = (approver.incarnation, approver.epoch) }
                return waiting
            }
        }
        guard decided != nil else {
            throw RequestError(.notFound, "no device waits with this code; it may have expired")
        }
    }

    /// A session for the device, once it is approved. A code works once.
    func redeem(_ deviceCode: String) async throws -> Sessions.Grant {
        let parts = deviceCode.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        let unknown = RequestError(.badRequest, "no device waits with this code", code: "invalid_grant")
        guard parts.count == 2, parts[0].utf8.count == 8, parts[0].utf8.allSatisfy({ (0x41...0x5A).contains($0) })
        else { throw unknown }
        let (key, now) = (try Self.key(parts[0]), host.now())
        guard let held = try await records.read(key, as: Waiting.self), held.value.secret == digest(parts[1]) else {
            throw unknown
        }
        var waiting = held.value
        guard !waiting.isOver(at: now) else {
            throw RequestError(.badRequest, "the code has expired; begin again", code: "expired_token")
        }
        if waiting.isDenied { throw RequestError(.badRequest, "the device was refused", code: "access_denied") }
        guard let name = waiting.account else {
            let isHasty = waiting.lastAsked.map { now >= $0 && now - $0 < Self.interval } == true
            waiting.lastAsked = now
            _ = try await records.replace(key, with: waiting, if: held.version)
            throw isHasty
                ? RequestError(.badRequest, "ask at most every 5 s", code: "slow_down")
                : RequestError(.badRequest, "nobody has approved it yet", code: "authorization_pending")
        }
        guard try await records.replace(key, with: Waiting?.none, if: held.version) else { throw unknown }
        guard let record = try await records.read(try AccountRecord.key(of: name), as: AccountRecord.self)?.value,
            record.living != nil, record.incarnation == waiting.incarnation, record.epoch == waiting.epoch
        else { throw unknown }
        return try await sessions.begin(record)
    }

    /// Deletes codes that nobody redeemed, the oldest first, a page at a time: who asks for many makes room himself.
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

    private static func key(_ code: String) throws(BackendError) -> EntryKey {
        try EntryKey(KeyScope.serverPrefix + "devices/" + code)
    }

    /// With as many digits as the largest time has, so that keys are in the order of time.
    private static func key(of expiry: Expiry) throws(BackendError) -> EntryKey {
        let time = "\(max(0, expiry.expires))"
        let zeros = String(repeating: "0", count: 19 - time.utf8.count)
        return try EntryKey(expiries + zeros + time + "-" + expiry.code)
    }

    private func digest(_ secret: String) -> String { Hexadecimal.text(cryptography.digest(of: Array(secret.utf8))) }
}
