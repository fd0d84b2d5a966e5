import Synchronization
import UbiquitousStorage

/// A stand-in for iCloud's key-value store and the local copies of devices, with the limits that Apple documents.
///
/// Devices exchange their copies only in ``exchange(_:)``. A key goes to the last writer, by the order of the writes.
final class FakeCloud: Sendable {
    struct Value: Sendable {
        var bytes: [UInt8]?
        var time: Int
        /// False for a string or a dictionary of another part of the app.
        var isData = true
    }

    private let accounts = Mutex<[UInt8: [String: Value]]>([:])
    private let clock = Mutex(0)

    func tick() -> Int {
        clock.withLock { time in
            time += 1
            return time
        }
    }

    /// Uploads the values that the device has written, and downloads the others. An upload beyond the quota is refused
    /// as a whole.
    func exchange(_ device: FakeDevice) {
        guard let account = device.account else { return }
        let outcome = accounts.withLock { accounts -> (values: [String: Value], isOver: Bool) in
            var merged = accounts[account, default: [:]]
            for (key, value) in device.local where value.time > merged[key]?.time ?? 0 { merged[key] = value }
            let size = merged.reduce(0) { $0 + ($1.value.bytes.map(\.count) ?? 0) }
            let count = merged.count { $0.value.bytes != nil }
            let isOver = size > UbiquitousBackend.byteCountLimit || count > UbiquitousBackend.keyCountLimit
            if !isOver { accounts[account] = merged }
            return (accounts[account, default: [:]], isOver)
        }
        device.receive(outcome.values, outcome.isOver ? .quotaExceeded : .received)
    }

    /// Performs the first download of a device, which discards the values that it has written before.
    func downloadFirst(_ device: FakeDevice) {
        guard let account = device.account else { return }
        device.forget()
        device.receive(accounts.withLock { $0[account, default: [:]] }, .unspecified)
    }

    /// Deletes the app's data in iCloud, as a user can in the settings.
    func deleteAll(_ account: UInt8) {
        accounts.withLock { accounts in
            for key in accounts[account, default: [:]].keys {
                accounts[account]?[key] = Value(bytes: nil, time: tick())
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
        var notifiesInCalls = false
        /// Keys that are too long. The real store throws an exception that ends the app.
        var misuses: [String] = []
    }
    private let cloud: FakeCloud
    private let state: Mutex<State>

    init(_ cloud: FakeCloud, account: UInt8? = 1) {
        self.cloud = cloud
        state = Mutex(State(account: account))
    }

    var account: UInt8? { state.withLock { $0.account } }
    var local: [String: FakeCloud.Value] { state.withLock { $0.values } }
    var misuses: [String] { state.withLock { $0.misuses } }
    var keys: [String] {
        notifyInCall()
        return state.withLock { $0.values.filter { $0.value.bytes != nil }.keys.sorted() }
    }

    func value(of key: String) -> UbiquitousValue? {
        notifyInCall()
        return state.withLock { state in
            guard let value = state.values[key], let bytes = value.bytes else { return nil }
            return value.isData ? .data(bytes) : .other(byteCount: bytes.count)
        }
    }

    func set(_ value: [UInt8]?, of key: String) { set(value, of: key, isData: true) }

    func set(_ value: [UInt8]?, of key: String, isData: Bool) {
        let time = cloud.tick()
        state.withLock { state in
            if key.utf8.count > 64 { state.misuses.append(key) }
            state.values[key] = FakeCloud.Value(bytes: value, time: time, isData: isData)
        }
        notifyInCall()
    }

    func synchronize() -> Bool {
        notifyInCall()
        return state.withLock { !$0.failsToSave }
    }

    func observe(_ handler: @escaping @Sendable (UbiquitousChange) -> Void) {
        state.withLock { $0.handlers.append(handler) }
    }

    /// Signs in another account, or none. The local copy is replaced.
    func signIn(_ account: UInt8?) {
        state.withLock { ($0.account, $0.values) = (account, [:]) }
        notify(.accountChanged)
    }

    func failToSave(_ fails: Bool = true) { state.withLock { $0.failsToSave = fails } }

    /// Delivers a notification during each call of the store.
    func notifyInCalls() { state.withLock { $0.notifiesInCalls = true } }

    fileprivate func forget() { state.withLock { $0.values = [:] } }

    fileprivate func receive(_ values: [String: FakeCloud.Value], _ change: UbiquitousChange) {
        state.withLock { state in
            for (key, value) in values where value.time > state.values[key]?.time ?? 0 { state.values[key] = value }
        }
        notify(change)
    }

    private func notify(_ change: UbiquitousChange) {
        for handler in state.withLock({ $0.handlers }) { handler(change) }
    }

    private func notifyInCall() {
        if state.withLock({ $0.notifiesInCalls }) { notify(.received) }
    }
}
