/// Where a ledger lies in a store, read off its key.
struct LedgerPlace: Hashable {
    enum Kind: Hashable {
        /// An account's ledger: what is synced.
        case account
        /// The part of it that stays on the device.
        case device
        /// What the device noted of the remote.
        case note
    }

    var kind: Kind
    /// `nil` for nobody.
    var name: String?
    var incarnation = ""

    /// `nil` for what is no ledger.
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
        // An account's ledger may lie in parts, one for each replica.
        guard parts.count == 1 || (parts.count == 2 && kind == .account && !isOnDevice && name != nil) else {
            return nil
        }
    }

    /// Whose it is, in words.
    var owner: String { name.map { "\($0) (\(incarnation))" } ?? "nobody" }
}
