/// A kind of history of accounts that old apps use.
package enum OldAppKind: String, CaseIterable, Sendable {
    /// Two devices buy, with and without a connection. Writes without one arrive within a day.
    case twoOldDevices
    /// Both devices buy at the same time, from the same served date.
    case concurrentPurchases
    /// Two users share a device, which keeps its date when the user changes.
    case sharedPhone
    /// Writes are repeated at once, after other writes, and once more at the end of a long history.
    case retries
    /// The answer to a write is lost, so the app writes its date again when it starts.
    case lostAnswers
    /// A write is lost, and the app adds the next purchase, some minutes later, to its date. At the end a new version
    /// of the app restores some of the store's transactions.
    case lostWrites
    /// The clock of one device is up to 20 days wrong.
    case skewedClocks
    /// The clock of one device is up to 400 days wrong.
    case wrongClocks
    /// A new version of the app restores the store's transactions on the same account.
    case newVersion
    /// The store notifies the server of a purchase before the app writes its date.
    case storeKitFirst
    /// Like ``storeKitFirst``, on a device that two users share.
    case sharedStoreKitFirst
    /// The accounts were imported with their dates, which some of the devices have stored too.
    case importedDates
    /// A new version on another device buys and reports at once, minutes before or after connected old apps buy.
    case bothVersions
    /// A new version buys within the hour in which an old app without a connection buys a product of another duration.
    case differentProducts
    /// Like ``differentProducts``, but the product is the same. The new version's purchase can then be that of the old
    /// app.
    case sameProduct

    /// True if two users share one device.
    package var isShared: Bool { self == .sharedPhone || self == .sharedStoreKitFirst }

    /// True if the store notifies the server before the app writes.
    package var isNotifiedFirst: Bool { self == .storeKitFirst || self == .sharedStoreKitFirst }

    /// True if the rules must lose and gain nothing. The others cost some, because their dates can mean two things.
    package var mustHold: Bool { ![.wrongClocks, .skewedClocks, .sameProduct].contains(self) }
}
