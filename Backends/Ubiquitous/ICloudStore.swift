#if canImport(Darwin) && !os(watchOS)
public import Foundation
import Synchronization

/// `NSUbiquitousKeyValueStore.default`. The app needs the entitlement for iCloud's key-value storage.
public final class ICloudStore: UbiquitousStore {
    private let observers = Mutex<[any NSObjectProtocol]>([])

    /// Creates a wrapper of the app's store.
    public init() {}

    deinit {
        for observer in observers.withLock({ $0 }) { NotificationCenter.default.removeObserver(observer) }
    }

    private var store: NSUbiquitousKeyValueStore { .default }

    /// The archived `ubiquityIdentityToken`.
    public var account: [UInt8]? {
        guard let token = FileManager.default.ubiquityIdentityToken,
            let data = try? NSKeyedArchiver.archivedData(withRootObject: token, requiringSecureCoding: false)
        else { return nil }
        return Array(data)
    }

    /// The keys of all values.
    public var keys: [String] { Array(store.dictionaryRepresentation.keys) }

    /// The data of a key; `nil` if there is none, or if the value has another type.
    public func value(of key: String) -> [UInt8]? { store.data(forKey: key).map { Array($0) } }

    /// Sets or removes the data of a key.
    public func set(_ value: [UInt8]?, of key: String) {
        if let value { store.set(Data(value), forKey: key) } else { store.removeObject(forKey: key) }
    }

    /// Calls `NSUbiquitousKeyValueStore.synchronize()`.
    public func synchronize() -> Bool { store.synchronize() }

    /// Observes `didChangeExternallyNotification`.
    public func observe(_ handler: @escaping @Sendable (UbiquitousChange) -> Void) {
        let observer = NotificationCenter.default.addObserver(
            forName: NSUbiquitousKeyValueStore.didChangeExternallyNotification, object: store, queue: nil
        ) { notification in
            switch notification.userInfo?[NSUbiquitousKeyValueStoreChangeReasonKey] as? Int {
            case NSUbiquitousKeyValueStoreQuotaViolationChange: handler(.quotaExceeded)
            case NSUbiquitousKeyValueStoreAccountChange: handler(.accountChanged)
            default: handler(.received)
            }
        }
        observers.withLock { $0.append(observer) }
    }
}
#endif
