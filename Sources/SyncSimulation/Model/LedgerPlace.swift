/// The location of a ledger in a store, parsed from its key.
struct LedgerPlace: Hashable {
    enum Kind: Hashable {
        /// An account's ledger, which is synced.
        case account
        /// The part of an account's ledger that stays on the device.
        case device
        /// A device's notes about the remote.
        case note
    }

    var kind: Kind
    /// The account's name; `nil` for the anonymous ledger.
    var name: String?
    var incarnation = ""

    /// Parses a key; `nil` if it is not that of a ledger.
    init?(_ key: String) {
        var parts = key.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        let isOnDevice = parts.first == "device"
        if isOnDevice { parts.removeFirst() }
        if parts.first == "anonymous" {
            parts.removeFirst()
        } else {
            guard parts.count >= 4, parts[0] == "accounts" else { return nil }
            (name, incarnation) = (parts[1], parts[2])
            parts.removeFirst(3)
        }
        switch parts.first {
        case "ledger": kind = isOnDevice ? .device : .account
        case "remote": kind = .note
        default: return nil
        }
        // An account's ledger may consist of parts, one for each replica.
        guard parts.count == 1 || (parts.count == 2 && kind == .account && !isOnDevice && name != nil) else {
            return nil
        }
    }

    /// The owner in words.
    var owner: String { name.map { "\($0) (\(incarnation))" } ?? "no account" }
}
