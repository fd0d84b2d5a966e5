/// The part of `NSUbiquitousKeyValueStore` that ``UbiquitousBackend`` uses. `ICloudStore` wraps the real one; tests use
/// a fake.
///
/// The store is a local copy. The system chooses when to exchange it with iCloud. It does so key by key, and the last
/// writer of a key wins. Nothing here identifies the iCloud account: `FileManager.ubiquityIdentityToken` belongs to
/// iCloud Drive, and is `nil` if Drive is off or the app may use the key-value store only.
public protocol UbiquitousStore: Sendable {
    /// The keys of all values, including those of other parts of the app.
    var keys: [String] { get }

    /// The value of a key in the local copy; `nil` if there is none.
    func value(of key: String) -> UbiquitousValue?

    /// Changes the local copy. `nil` removes the value.
    func set(_ value: [UInt8]?, of key: String)

    /// Writes the local copy to disk, and asks the system for an exchange with iCloud.
    ///
    /// - Returns: `false` if the local copy could not be written, or if the app lacks the entitlement.
    func synchronize() -> Bool

    /// Calls `handler` for each change that does not come from this process. The call may come from any thread, and
    /// during a call of another method.
    func observe(_ handler: @escaping @Sendable (UbiquitousChange) -> Void)
}

/// A value of the local copy.
public enum UbiquitousValue: Hashable, Sendable {
    /// Data, the type of all values of ``UbiquitousBackend``.
    case data([UInt8])
    /// A value of another type, which another part of the app has written, with its size or an estimate of it.
    case other(byteCount: Int)

    package var byteCount: Int {
        switch self {
        case .data(let bytes): bytes.count
        case .other(let byteCount): byteCount
        }
    }

    /// The bytes of data; `nil` for other types.
    package var bytes: [UInt8]? { if case .data(let bytes) = self { bytes } else { nil } }
}

/// The reasons for a change of the local copy.
public enum UbiquitousChange: Hashable, Sendable {
    /// iCloud has delivered values that another device has written.
    case received
    /// The values exceed the space of the app, and are not uploaded.
    case quotaExceeded
    /// Another iCloud account is signed in. The system replaces the local copy by that of the new account.
    case accountChanged
    /// The first download has begun or ended, or the reason is unknown. The download may discard earlier writes.
    case unspecified
}
