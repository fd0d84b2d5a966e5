import Entitlements
import SyncCore

/// Who is logged in on this device, as the local store keeps it.
struct DeviceSession: Sendable {
    let backend: any KeyValueBackend

    private static let head = "entitlementsync session 1"

    /// The account; nobody when no one is logged in.
    func account() async throws(EntitlementError) -> Account {
        try await read().account
    }

    /// The account, nobody after a log-out; `nil` when no one has ever logged in or out here.
    func noted() async throws(EntitlementError) -> Account? {
        let (account, precondition) = try await read()
        return precondition == .absent ? nil : account
    }

    /// Notes who is logged in from now on, also in the place of an entry that cannot be read.
    func set(_ account: Account) async throws(EntitlementError) {
        try await change { () throws(EntitlementError) in account }
    }

    /// Notes that `account` is logged in no more, unless another one is by now.
    func end(_ account: Account) async throws(EntitlementError) {
        try await change { () async throws(EntitlementError) in
            try await read().account == account ? .anonymous : nil
        }
    }

    /// Notes the account that `next` gives, `nil` for no change.
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
                // When nobody knows the outcome it is simply written again.
                guard error.disposition == .outcomeUnknown else { throw EntitlementError(error) }
            } catch {
                throw EntitlementError(.storage, "local store: \(error)")
            }
        }
        throw EntitlementError(
            BackendError(.busy, operation: .write, message: "who is logged in keeps changing, try again"))
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
                "local store: \(backend.label): \"\(LedgerKeys.session)\" does not say who is logged in; log in again")
        }
        return (account, .matches(entry.version))
    }
}
