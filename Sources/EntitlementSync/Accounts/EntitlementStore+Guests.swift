import Entitlements
package import SyncCore

extension Account {
    private static let guestPrefix = "guest-"
    private static let guestDigitCount = 32

    /// Returns a name for the account of a customer without a log-in: `guest-` and 32 random hexadecimal digits.
    package static func guestName(_ host: HostServices) -> String {
        let digits = [host.randomBits(), host.randomBits()].map { bits in
            let text = String(bits, radix: 16)
            return String(repeating: "0", count: 16 - text.count) + text
        }
        return guestPrefix + digits.joined()
    }

    /// True for the account of a customer without a log-in, which the app has created by itself. It syncs like any
    /// other account, and does not count as logged in.
    package var isGuest: Bool {
        guard let digits = name?.utf8.dropFirst(Self.guestPrefix.utf8.count), name?.hasPrefix(Self.guestPrefix) == true,
            digits.count == Self.guestDigitCount
        else { return false }
        return digits.allSatisfy { byte in
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
        }
    }
}

extension EntitlementStore {
    /// Uses a guest that this device knows, instead of the anonymous account. Needs no network.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    package func resumeGuest(_ name: String) async throws(EntitlementError) {
        let anonymous = session
        guard anonymous.account.isAnonymous, let guest = try await inLocalStore(await directoryHere.current(name))
        else { return }
        try await DeviceSession(backend: local).set(guest)
        try await switchSession(to: guest, from: anonymous)
    }

    /// Makes the purchases of a guest anonymous again on this device, where another account can adopt them, and marks
    /// the guest as erased here. Needs no network. Erase the guest at the server afterwards.
    ///
    /// Each step can be repeated: after an interruption, call it again. The purchases count at all times.
    ///
    /// - Parameter name: The guest's name. Nothing happens if this device does not know it.
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    package func releaseGuest(_ name: String) async throws(EntitlementError) {
        guard let incarnation = try await inLocalStore(await directoryHere.entry(of: name))?.incarnation else { return }
        let guest = try Account(name, incarnation: incarnation)
        let adoption = Adoption(backend: local, host: host)
        try await adoption.copyToAnonymous(guest)
        // Calls that start now record anonymously. One that is running may still record for the guest.
        try await DeviceSession(backend: local).end(guest)
        if session.account == guest { try await switchSession(to: .anonymous) }
        try await adoption.moveToAnonymous(guest)
        try await eraseLocally(guest)
        await publish([], in: session)
    }
}
