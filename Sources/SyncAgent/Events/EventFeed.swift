package import EntitlementSync
package import Entitlements
package import SyncCore

/// The event log of a store: kept in the local store, and offered to readers.
///
/// Only the holder of the ``StoreLock`` may have one.
package actor EventFeed {
    /// The key of the log in the local store. It is never synced.
    static let key = "agent/events"

    private let local: any KeyValueBackend
    private let key: EntryKey
    private let notice: Duration
    private let hasProgram: Bool
    private let onError: @Sendable (String) -> Void
    private let hub = SignalHub()
    private var log: EventLog
    /// True if the log has changed since it was written.
    private var isDirty = false
    private var isWriting = false

    /// Opens the log.
    ///
    /// - Parameters:
    ///   - notice: The time before the end of a subscription at which it is announced.
    ///   - hasProgram: False if no program takes the events. They are then not kept for a later one.
    ///   - onError: Receives one line for each failure of the log.
    /// - Throws: The error of the local store, or one of the kind `newerFormat`.
    package init(
        _ local: any KeyValueBackend, noticeBeforeExpiry notice: Duration, hasProgram: Bool,
        onError: @escaping @Sendable (String) -> Void
    ) async throws(BackendError) {
        (self.local, self.notice, self.hasProgram, self.onError) = (local, notice, hasProgram, onError)
        key = try EntryKey(Self.key)
        guard case .found(let entry) = try await local.read(key).outcome else {
            log = EventLog()
            return
        }
        do throws(EventLog.Defect) { log = try EventLog(entry.value) } catch {
            guard error == .damaged else {
                throw BackendError(
                    .newerFormat, operation: .read, key: key,
                    message: "a later version of syncd has written the list of events; use that version")
            }
            onError("the event log is damaged and was reset; undelivered events are lost")
            log = EventLog()
            isDirty = true
        }
    }

    /// Adds the events that lead to `state`, and stores them before any reader sees them.
    ///
    /// If the account was erased, also by another process, all events are discarded first: none of its data may stay on
    /// this device.
    package func observe(_ state: CurrentState) async {
        let isErased = await isSeenAccountErased(beside: state.account)
        await change { log in
            if isErased { log.forgetAll() }
            log.observe(state, noticeBeforeExpiry: notice)
        }
    }

    private func isSeenAccountErased(beside current: Account) async -> Bool {
        guard let name = log.seen?.account, !name.isEmpty, name != "\(current)" else { return false }
        do throws(EntitlementError) { return try await EntitlementStore.isErased(name, in: local) } catch {
            onError("the account \"\(name)\" of the last events cannot be read: \(error)")
            return false
        }
    }

    /// Adds the failure of a sync; `nil` for a success.
    package func add(_ failure: EntitlementError?, at time: Timestamp, account: Account) async {
        await change { $0.add(failure, at: time, account: account) }
    }

    /// Records that the program has taken an event.
    package func deliver(_ number: UInt64) async {
        await change { $0.deliver(number) }
    }

    /// The numbers of the last event and of the last one that the program has taken, and the number of lost ones.
    package var position: (last: UInt64, delivered: UInt64, lost: UInt64) { (log.last, log.delivered, log.lostCount) }

    /// The oldest event that the program has not taken.
    package var nextUndelivered: EventLog.Event? { isDirty ? nil : log.nextUndelivered }

    /// The stored events after `number`.
    package func events(after number: UInt64) -> [EventLog.Event] { isDirty ? [] : Array(log.events(after: number)) }

    /// A stream that yields when there may be new events, and with each ``tick()``.
    package nonisolated func signals() -> AsyncStream<Void> { hub.subscribe() }

    /// A stream as from ``signals()``, and a function that ends it.
    nonisolated func subscription() -> (stream: AsyncStream<Void>, end: @Sendable () -> Void) { hub.subscription() }

    /// Wakes all readers, so that they send a sign of life.
    package nonisolated func tick() { hub.signal() }

    private func change(_ body: (inout EventLog) -> Void) async {
        var next = log
        body(&next)
        if !hasProgram { next.deliverAll() }
        guard next != log || isDirty else { return }
        log = next
        isDirty = true
        // One write at a time, so that an older log never replaces a newer one.
        guard !isWriting else { return }
        isWriting = true
        defer { isWriting = false }
        while isDirty {
            let written = log
            do throws(BackendError) { _ = try await local.write(written.bytes, to: key, if: .any) } catch {
                return onError("the event log cannot be stored: \(error)")
            }
            isDirty = log != written
        }
        hub.signal()
    }
}
