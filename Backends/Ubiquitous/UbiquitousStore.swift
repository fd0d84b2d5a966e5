/// The part of `NSUbiquitousKeyValueStore` that ``UbiquitousBackend`` uses. `ICloudStore` wraps the real one; tests use
/// a fake.
///
/// The store is a local copy. The system chooses when to exchange it with iCloud. It does so key by key, and the last
/// writer of a key wins.
public protocol UbiquitousStore: Sendable {
    /// Identifies the iCloud account of this device; `nil` if none is signed in, or if iCloud is off for this app.
    var account: [UInt8]? { get }

    /// The keys of all values, including those of other parts of the app.
    var keys: [String] { get }

    /// The value of a key in the local copy; `nil` if there is none.
    func value(of key: String) -> [UInt8]?

    /// Changes the local copy. `nil` removes the value.
    func set(_ value: [UInt8]?, of key: String)

    /// Writes the local copy to disk, and asks the system for an exchange with iCloud.
    ///
    /// - Returns: `false` if the local copy could not be written.
    func synchronize() -> Bool

    /// Calls `handler` for each change that does not come from this process.
    func observe(_ handler: @escaping @Sendable (UbiquitousChange) -> Void)
}

/// The reasons for a change of the local copy.
public enum UbiquitousChange: Hashable, Sendable {
    /// Another device has written, or the first download is complete.
    case received
    /// The values exceed the space of the app, and are not uploaded.
    case quotaExceeded
    /// Another iCloud account is signed in. The local copy is that of the new account.
    case accountChanged
}
