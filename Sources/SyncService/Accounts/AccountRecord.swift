import EntitlementSync
import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What the server knows of an account's name, in `server/accounts/NAME`.
struct AccountRecord: Hashable, Sendable, Codable {
    /// The name, as a token says it.
    var name: String
    /// The current life; `nil` after an erasure. While one is under way it is among the erased ones, too.
    var incarnation: String?
    /// Lives that were erased.
    var erased: [String] = []
    /// The hash of the password; `nil` for an account of another issuer.
    var password: String?
    /// Who issues its tokens; `nil` for this server.
    var issuer: String?
    /// Digests of the recovery codes that were not used, in hexadecimal.
    var recoveryCodes: [String] = []
    /// Sessions of another epoch are over: it goes up when all are ended at once.
    var epoch: Int64 = 0
    /// Another issuer's tokens that were not made after this count nothing, in milliseconds since 1970 UTC; `nil` while
    /// nobody has ended them.
    var tokensSince: Int64?
    /// When this life began, in milliseconds since 1970 UTC.
    var created: Int64

    /// The current life, also while it is being erased; `nil` after that.
    var account: Account? { incarnation.flatMap { try? Account(name, incarnation: $0) } }

    /// The current life, unless it is being erased.
    var living: Account? { account.flatMap { isErased($0.incarnation) ? nil : $0 } }

    /// Whether this life was erased, or is being erased.
    func isErased(_ life: String) -> Bool { erased.contains { $0.utf8.elementsEqual(life.utf8) } }

    static func key(of name: String) throws(BackendError) -> EntryKey {
        try EntryKey(prefix + LedgerKeys.escaped(name))
    }

    /// The name in `key` as it stands there; `nil` where no account's record is under it.
    static func escapedName(of key: EntryKey) -> String? {
        key.hasPrefix(prefix) ? String(key.text.dropFirst(prefix.count)) : nil
    }

    private static let prefix = KeyScope.serverPrefix + "accounts/"
}

/// A log-in on one device, in `server/sessions/NAME/ID`.
struct SessionRecord: Hashable, Sendable, Codable {
    /// Its id: 32 hexadecimal digits.
    var id: String
    /// Whose it is.
    var account: String
    /// In which life.
    var incarnation: String
    /// Counts while the account's is the same.
    var epoch: Int64
    /// The digest of the secret that refreshes it now, in hexadecimal.
    var secret: String
    /// The digest of the one before, which is honoured for a while: the answer that brought its successor may be lost.
    var formerSecret: String?
    /// How many secrets came before the one that counts now.
    var generation: Int64 = 0
    /// When the former one was used, in milliseconds since 1970 UTC.
    var rotated: Int64
    /// When it began, in milliseconds since 1970 UTC.
    var created: Int64
    /// When it ends unless it is refreshed, in milliseconds since 1970 UTC.
    var expires: Int64

    /// Whether it is over: it was not refreshed in time, or its dates are those of a clock that was wrong.
    ///
    /// - Parameters:
    ///   - now: the time, in milliseconds since 1970 UTC.
    ///   - lifetime: how long a session lives that is not refreshed, in milliseconds.
    func isOver(at now: Int64, lifetime: Int64) -> Bool {
        expires <= now || now - rotated >= lifetime || max(rotated, created) - now > ClockRollbackGuard.tolerance
    }

    /// Whether it is of this life of the account.
    func isOf(_ life: Account) -> Bool { (try? Account(account, incarnation: incarnation)) == life }

    static func prefix(of name: String) -> String {
        KeyScope.serverPrefix + "sessions/" + LedgerKeys.escaped(name) + "/"
    }

    /// The id of the session under `key`; `nil` for any other key.
    static func id(of key: EntryKey) -> String? {
        guard key.hasPrefix(KeyScope.serverPrefix + "sessions/") else { return nil }
        return key.text.split(separator: "/").last.map(String.init)
    }

    static func key(_ id: String, of name: String) throws(BackendError) -> EntryKey {
        try EntryKey(prefix(of: name) + id)
    }
}

/// Records of the server's own as JSON, read and written by compare-and-swap.
struct RecordStore: Sendable {
    let backend: any KeyValueBackend

    /// A record and the version that it has.
    struct Held<Value: Sendable>: Sendable {
        var value: Value
        var version: EntryVersion
    }

    /// The record under `key`; `nil` where there is none.
    func read<Value: Codable & Sendable>(
        _ key: EntryKey, as type: Value.Type = Value.self
    ) async throws(BackendError) -> Held<Value>? {
        guard case .found(let entry) = try await backend.read(key).outcome else { return nil }
        do {
            return Held(value: try JSONDecoder().decode(Value.self, from: Data(entry.value)), version: entry.version)
        } catch {
            throw BackendError(
                .damaged, operation: .read, key: key, message: "the server's record cannot be read", cause: error)
        }
    }

    /// Writes `value`, or deletes where it is `nil`, if the key still holds `version`.
    ///
    /// - Returns: whether it did. What may have happened is settled by a look: the record is there as it was to be, or
    ///   it is not.
    func replace<Value: Codable & Sendable & Equatable>(
        _ key: EntryKey, with value: Value?, if version: EntryVersion?
    ) async throws(BackendError) -> Bool {
        let precondition = version.map(Precondition.matches) ?? .absent
        do throws(BackendError) {
            guard let value else {
                if case .conflict = try await backend.delete(key, if: precondition).outcome { return false }
                return true
            }
            if case .written = try await backend.write(try bytes(of: value), to: key, if: precondition).outcome {
                return true
            }
            return false
        } catch {
            guard error.disposition == .outcomeUnknown else { throw error }
            let now = try await read(key, as: Value.self)
            if now?.version == version { throw error }
            return now?.value == value
        }
    }

    /// Changes the record under `key` until nobody comes in between.
    ///
    /// - Parameter change: what it is to be, `nil` to leave it as it is.
    /// - Returns: what it is then; `nil` where `change` wanted nothing.
    func update<Value: Codable & Sendable & Equatable>(
        _ key: EntryKey, _ change: (Value?) throws(BackendError) -> Value?
    ) async throws(BackendError) -> Value? {
        for _ in 0..<32 {
            let held = try await read(key, as: Value.self)
            guard let value = try change(held?.value) else { return nil }
            if value == held?.value { return value }
            if try await replace(key, with: value, if: held?.version) { return value }
        }
        throw BackendError(.busy, operation: .write, key: key, message: "others write this all the time; try again")
    }

    func bytes(of value: some Encodable) throws(BackendError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do { return Array(try encoder.encode(value)) } catch {
            throw BackendError(.other, operation: .write, message: "a record cannot be written as JSON", cause: error)
        }
    }
}

/// Bytes as text: two hexadecimal digits each.
enum Hexadecimal {
    static func text(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
