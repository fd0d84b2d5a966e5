import Entitlements
import SyncCore

/// The account that is logged in on this device, as stored in the local store.
struct DeviceSession: Sendable {
    let backend: any KeyValueBackend

    private static let head = "entitlementsync session 1"

    /// Returns the account; the anonymous one if no account is logged in.
    func account() async throws(EntitlementError) -> Account {
        try await noted() ?? .anonymous
    }

    /// Returns the account, which is the anonymous one after a log-out; `nil` before the first log-in or log-out.
    func noted() async throws(EntitlementError) -> Account? {
        guard case .found(let entry) = try await inLocalStore(await backend.read(key())).outcome else { return nil }
        return try account(in: entry)
    }

    /// Stores the logged-in account. Replaces an entry that cannot be decoded.
    func set(_ account: Account) async throws(EntitlementError) {
        let bytes = Self.bytes(naming: account)
        try await backend.update(try ofLocalStore(key())) { (entry) throws(EntitlementError) in
            entry?.value == bytes ? nil : bytes
        }
    }

    /// Ends the session of `account`, unless another account has logged in since.
    func end(_ account: Account) async throws(EntitlementError) {
        try await backend.update(try ofLocalStore(key())) { (entry) throws(EntitlementError) in
            let isCurrent = try entry.map { (entry) throws(EntitlementError) in try self.account(in: entry) } == account
            return isCurrent ? Self.bytes(naming: .anonymous) : nil
        }
    }

    private static func bytes(naming account: Account) -> [UInt8] {
        let lines = [head] + (account.name.map { [$0, account.incarnation] } ?? []) + ["end", ""]
        return Array(lines.joined(separator: "\n").utf8)
    }

    private func key() throws(BackendError) -> EntryKey { try EntryKey(LedgerKeys.session) }

    private func account(in entry: Entry) throws(EntitlementError) -> Account {
        let lines = String(validating: entry.value, as: UTF8.self)?.split(
            separator: "\n", omittingEmptySubsequences: false
        ).map(String.init)
        if lines == [Self.head, "end", ""] { return .anonymous }
        guard let lines, lines.count == 5, lines[0] == Self.head, Array(lines[3...]) == ["end", ""],
            let account = try? Account(lines[1], incarnation: lines[2])
        else {
            throw EntitlementError(
                .damaged,
                "local store: \(backend.label): \"\(LedgerKeys.session)\" is malformed; log in again")
        }
        return account
    }
}
