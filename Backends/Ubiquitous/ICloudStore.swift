#if canImport(Darwin)
import Foundation
import Synchronization

/// `NSUbiquitousKeyValueStore.default`. The app needs the capability iCloud, key-value storage, which adds the
/// entitlement `com.apple.developer.ubiquity-kvstore-identifier`.
public final class ICloudStore: UbiquitousStore {
    private let observers = Mutex<[ChangeObserver]>([])

    /// Creates a wrapper of the app's store.
    public init() {}

    private var store: NSUbiquitousKeyValueStore { NSUbiquitousKeyValueStore.default }

    /// The keys of all values.
    public var keys: [String] { Array(store.dictionaryRepresentation.keys) }

    /// The value of a key; `nil` if there is none. The size of a value that is not data is its length as a binary
    /// property list.
    public func value(of key: String) -> UbiquitousValue? {
        guard let value = store.object(forKey: key) else { return nil }
        if let data = value as? Data { return .data(Array(data)) }
        do {
            return .other(
                byteCount: try PropertyListSerialization.data(fromPropertyList: value, format: .binary, options: 0)
                    .count)
        } catch {
            // Not a property list, which the store does not accept. Its description has about the same length.
            return .other(byteCount: String(describing: value).utf8.count)
        }
    }

    /// Sets or removes the data of a key.
    public func set(_ value: [UInt8]?, of key: String) {
        if let value { store.set(Data(value), forKey: key) } else { store.removeObject(forKey: key) }
    }

    /// Calls `NSUbiquitousKeyValueStore.synchronize()`.
    public func synchronize() -> Bool { store.synchronize() }

    /// Observes `didChangeExternallyNotification` until this object is deallocated.
    public func observe(_ handler: @escaping @Sendable (UbiquitousChange) -> Void) {
        let observer = ChangeObserver(handler)
        NotificationCenter.default.addObserver(
            observer, selector: #selector(ChangeObserver.storeDidChange(_:)),
            name: NSUbiquitousKeyValueStore.didChangeExternallyNotification, object: store)
        observers.withLock { $0.append(observer) }
    }
}

/// The target of the notifications. The notification center does not retain it, and stops calling it when it is
/// deallocated.
private final class ChangeObserver: NSObject, Sendable {
    private let handler: @Sendable (UbiquitousChange) -> Void

    init(_ handler: @escaping @Sendable (UbiquitousChange) -> Void) {
        self.handler = handler
        super.init()
    }

    @objc func storeDidChange(_ notification: Notification) {
        guard let reason = notification.userInfo?[NSUbiquitousKeyValueStoreChangeReasonKey] as? Int else {
            return handler(.unspecified)
        }
        switch reason {
        case NSUbiquitousKeyValueStoreServerChange: handler(.received)
        case NSUbiquitousKeyValueStoreQuotaViolationChange: handler(.quotaExceeded)
        case NSUbiquitousKeyValueStoreAccountChange: handler(.accountChanged)
        default: handler(.unspecified)
        }
    }
}
#endif
