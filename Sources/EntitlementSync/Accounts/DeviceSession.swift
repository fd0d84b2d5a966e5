import Entitlements
import SyncCore

/// The account that is logged in on this device, as stored in the local store.
struct DeviceSession: Sendable {
    let backend: any KeyValueBackend

    private static let head = "entitlementsync session 1"

    /// Returns the account; the anonymous one if no account is logged in.
    func account() async throws(EntitlementError) -> Account {
        try await read().account
    }

    /// Returns the account, which is the anonymous one after a log-out; `nil` before the first log-in or log-out.
    func noted() async throws(EntitlementError) -> Account? {
        let (account, precondition) = try await read()
        return precondition == .absent ? nil : account
    }

    /// Stores the logged-in account. Replaces an entry that cannot be decoded.
    func set(_ account: Account) async throws(EntitlementError) {
        try await change { () throws(EntitlementError) in account }
    }

    /// Ends the session of `account`, unless another account has logged in since.
    func end(_ account: Account) async throws(EntitlementError) {
        try await change { () async throws(EntitlementError) in
            try await read().account == account ? .anonymous : nil
        }
    }

    /// Stores the account that `next` returns; `nil` leaves the entry unchanged.
    private func change(_ next: () async throws(EntitlementError) -> Account?) async throws(EntitlementError) {
        for _ in 0..<LedgerEntries.maximumAttempts {
            do {
                var (entry, precondition): (Entry?, Precondition) = (nil, .absent)
                if case .found(let found) = try await backend.read(key()).outcome {
                    (entry, precondition) = (found, .matches(found.version))
                }
                guard let account = try await next() else { return }
                let bytes = Self.bytes(naming: account)
                if entry?.value == bytes { return }
                if case .written = try await backend.write(bytes, to: try key(), if: precondition).outcome { return }
            } catch let error as EntitlementError {
                throw error
            } catch let error as BackendError {
                // With an unknown outcome, write again.
                guard error.disposition == .outcomeUnknown else { throw EntitlementError(error) }
            } catch {
                throw EntitlementError(.storage, "local store: \(error)")
            }
        }
        throw EntitlementError(
            BackendError(.busy, operation: .write, message: "the logged-in account keeps changing; try again"))
    }

    private static func bytes(naming account: Account) -> [UInt8] {
        let lines = [head] + (account.name.map { [$0, account.incarnation] } ?? []) + ["end", ""]
        return Array(lines.joined(separator: "\n").utf8)
    }

    private func key() throws(BackendError) -> EntryKey { try EntryKey(LedgerKeys.session) }

    private func read() async throws(EntitlementError) -> (account: Account, Precondition) {
        let outcome: ReadOutcome
        do { outcome = try await backend.read(key()).outcome } catch { throw EntitlementError(error) }
        guard case .found(let entry) = outcome else { return (.anonymous, .absent) }
        let lines = String(validating: entry.value, as: UTF8.self)?.split(
            separator: "\n", omittingEmptySubsequences: false
        ).map(String.init)
        if lines == [Self.head, "end", ""] { return (.anonymous, .matches(entry.version)) }
        guard let lines, lines.count == 5, lines[0] == Self.head, Array(lines[3...]) == ["end", ""],
            let account = try? Account(lines[1], incarnation: lines[2])
        else {
            throw EntitlementError(
                .damaged,
                "local store: \(backend.label): \"\(LedgerKeys.session)\" is malformed; log in again")
        }
        return (account, .matches(entry.version))
    }
}
