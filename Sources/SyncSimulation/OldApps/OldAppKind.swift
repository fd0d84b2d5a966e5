/// A kind of history of accounts that old apps use.
package enum OldAppKind: String, CaseIterable, Sendable {
    /// Two devices buy, with and without a connection. Writes without one arrive within a day.
    case twoOldDevices
    /// Both devices buy at the same time, from the same served date.
    case concurrentPurchases
    /// Two users share a device, which keeps its date when the user changes.
    case sharedPhone
    /// Writes are repeated at once, and again after other writes.
    case retries
    /// The answer to a write is lost, so the app writes its date again when it starts.
    case lostAnswers
    /// The clock of one device is up to 400 days wrong.
    case wrongClocks
    /// A new version of the app restores the store's transactions on the same account.
    case newVersion
    /// The store notifies the server of a purchase before the app writes its date.
    case storeKitFirst

    /// The accounts were imported with their dates, which some of the devices have stored too.
    case importedDates

    /// True if the rules must lose and gain nothing. A clock that is wrong by more than half a product costs some.
    package var mustHold: Bool { self != .wrongClocks }
}
