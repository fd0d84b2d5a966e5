import EntitlementSync
package import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore
import SyncProtocol

/// The configuration of signed grants.
package struct GrantConfiguration: Sendable {
    /// The permitted lifetimes of a grant, in days.
    package static let days: ClosedRange<Int> = 1...30

    /// The root key, which signs statements about the server's rotating keys.
    package var root: SigningKey
    /// The lifetime of a grant, in milliseconds.
    package var lifetime: Int64

    /// - Parameter days: The lifetime of a grant.
    package init(root: SigningKey, days: Int) {
        self.root = root
        lifetime = Int64(min(max(days, Self.days.lowerBound), Self.days.upperBound)) * 86_400_000
    }
}

/// A key of the server, and the time in which its grants are valid.
package struct GrantKey: Sendable {
    /// The key.
    package var key: SigningKey
    /// The first instant at which the key may sign a grant.
    package var start: Timestamp
    /// The instant at which the last grant of the key has expired.
    package var end: Timestamp

    /// - Parameter created: The time at which the key was created, in milliseconds since 1970 UTC.
    init(_ key: SigningKey, created: Int64) {
        self.key = key
        // The clock of another server, which created the key, may be ahead by the tolerance.
        start = Timestamp(milliseconds: created - ClockRollbackGuard.tolerance)
        let longest = Int64(GrantConfiguration.days.upperBound) * 86_400_000
        end = Timestamp(milliseconds: created + KeyRing.period + longest + ClockRollbackGuard.tolerance)
    }
}

extension EntitlementService {
    /// The longest id of a device, in bytes.
    private static let deviceByteCount = 64

    /// The response to `GET /v1/grants`: the entitlements of the account, signed for one device.
    func grant(_ call: Call, of caller: AccountCaller) async throws -> ServiceResponse {
        guard let grants = configuration.grants else {
            throw RequestError(.notFound, "this server signs no grants (syncd serve --root-key)")
        }
        guard let device = call.query["device"], Self.isDevice(device) else {
            throw RequestError(
                .badRequest, "device must be 1 to \(Self.deviceByteCount) ASCII letters, digits, \"-\" and \"_\"")
        }
        let environment = try environment(in: call.query)
        // With a wrong clock, the dates of the statement would be wrong.
        try clockGuard.check()
        let access = try await entitlements(of: caller, environment) { [host] in
            Timestamp(milliseconds: host.now())
        }.access
        // A clock that was set back by less than the tolerance may be before the key.
        let key = try await keys.grantKey()
        let issued = Timestamp(milliseconds: max(host.now(), key.start.milliseconds) / 1_000 * 1_000)
        let account = caller.account
        let pseudonym = SignedGrant.pseudonymSource(
            server: configuration.name, name: account.name ?? "", incarnation: account.incarnation)
        let grant = SignedGrant(
            server: configuration.name,
            account: hexadecimalDigest(of: pseudonym), device: device,
            environment: environment, issued: issued,
            expires: Timestamp(milliseconds: issued.milliseconds + grants.lifetime),
            items: access.compactMap { item in
                guard case .granted(let grant) = item.access else { return nil }
                return SignedGrant.Item(item.entitlement, until: grant.until, units: grant.units)
            })
        let text = try grant.signed(with: key, by: grants.root)
        guard text.utf8.count <= SignedGrant.maximumByteCount else {
            throw BackendError(.full, message: "the account has too many entitlements for a grant")
        }
        return .json([
            ("grant", .string(text)), ("issued", .string("\(issued)")), ("expires", .string("\(grant.expires)")),
        ])
    }

    private static func isDevice(_ text: String) -> Bool {
        (1...deviceByteCount).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0.isASCIIAlphanumeric(or: "-_") }
    }
}
