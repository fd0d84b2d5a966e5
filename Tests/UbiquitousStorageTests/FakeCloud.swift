import Synchronization
import UbiquitousStorage

/// A stand-in for iCloud's key-value store and the local copies of devices, with the limits that Apple documents.
///
/// Devices exchange their copies only in ``exchange(_:)``. A key goes to the last writer, by the order of the writes.
final class FakeCloud: Sendable {
    struct Value: Sendable {
        var bytes: [UInt8]?
        var time: Int
    }

    struct Account: Sendable {
        var values: [String: Value] = [:]
    }

    private let accounts = Mutex<[UInt8: Account]>([:])
    private let clock = Mutex(0)

    func tick() -> Int {
        clock.withLock { time in
            time += 1
            return time
        }
    }

    /// Uploads what the device has written, and downloads the rest. An upload beyond the quota is refused as a whole.
    func exchange(_ device: FakeDevice) {
        guard let account = device.accountNumber else { return }
        let outcome = accounts.withLock { accounts -> (values: [String: Value], isOver: Bool) in
            var merged = accounts[account, default: Account()].values
            for (key, value) in device.local where value.time > merged[key]?.time ?? 0 { merged[key] = value }
            let size = merged.reduce(0) { $0 + ($1.value.bytes.map(\.count) ?? 0) + $1.key.utf8.count }
            let count = merged.count { $0.value.bytes != nil }
            let isOver =
                size > UbiquitousBackend.byteCountLimit || count > UbiquitousBackend.keyCountLimit
            if !isOver { accounts[account] = Account(values: merged) }
            return (accounts[account, default: Account()].values, isOver)
        }
        device.receive(outcome.values, isOver: outcome.isOver)
    }

    /// Deletes the app's data in iCloud, as a user can in the settings.
    func deleteAll(_ account: UInt8) {
        accounts.withLock { accounts in
            for key in accounts[account, default: Account()].values.keys {
                accounts[account]?.values[key] = Value(bytes: nil, time: tick())
            }
        }
    }
}

/// The local copy of one device.
final class FakeDevice: UbiquitousStore {
    private struct State {
        var account: UInt8?
        var values: [String: FakeCloud.Value] = [:]
        var handlers: [@Sendable (UbiquitousChange) -> Void] = []
        var failsToSave = false
        /// Keys that are too long. The real store throws an exception that ends the app.
        var misuses: [String] = []
    }
    private let cloud: FakeCloud
    private let state: Mutex<State>

    init(_ cloud: FakeCloud, account: UInt8? = 1) {
        self.cloud = cloud
        state = Mutex(State(account: account))
    }

    var accountNumber: UInt8? { state.withLock { $0.account } }
    var local: [String: FakeCloud.Value] { state.withLock { $0.values } }
    var misuses: [String] { state.withLock { $0.misuses } }
    var account: [UInt8]? { accountNumber.map { [$0] } }
    var keys: [String] { state.withLock { $0.values.filter { $0.value.bytes != nil }.keys.sorted() } }

    func value(of key: String) -> [UInt8]? { state.withLock { $0.values[key]?.bytes } }

    func set(_ value: [UInt8]?, of key: String) {
        let time = cloud.tick()
        state.withLock { state in
            if key.utf8.count > 64 { state.misuses.append(key) }
            state.values[key] = FakeCloud.Value(bytes: value, time: time)
        }
    }

    func synchronize() -> Bool { state.withLock { !$0.failsToSave } }

    func observe(_ handler: @escaping @Sendable (UbiquitousChange) -> Void) {
        state.withLock { $0.handlers.append(handler) }
    }

    /// Signs in another account, or none. The local copy is replaced.
    func signIn(_ account: UInt8?) {
        let handlers = state.withLock { state in
            (state.account, state.values) = (account, [:])
            return state.handlers
        }
        for handler in handlers { handler(.accountChanged) }
    }

    func failToSave() { state.withLock { $0.failsToSave = true } }

    fileprivate func receive(_ values: [String: FakeCloud.Value], isOver: Bool) {
        let handlers = state.withLock { state in
            for (key, value) in values where value.time > state.values[key]?.time ?? 0 { state.values[key] = value }
            return state.handlers
        }
        for handler in handlers { handler(isOver ? .quotaExceeded : .received) }
    }
}
