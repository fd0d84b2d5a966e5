public import Entitlements

/// The clock by which an ``EntitlementStore`` decides access.
public enum ClockSource: Hashable, Sendable {
    /// The host's clock, corrected by the times that remotes report and that stores sign. The default.
    case trusted
    /// The host's clock alone. For tests, and for support questions such as "what was active on that day?".
    case host
}

/// The state of this device's clock, as far as an ``EntitlementStore`` knows it.
public struct ClockStatus: Hashable, Sendable {
    /// The time that decides access.
    public var now: Timestamp
    /// The remote's clock minus this device's at the last contact; negative if the remote was behind. `nil` if no
    /// remote has reported its time. Exact to within the round trip of that answer.
    public var offset: Duration?
    /// The remote's time at the last contact.
    public var lastContact: Timestamp?
    /// The label of the remote that reported the time.
    public var remote: String?

    /// True if this device's clock is known to be off by more than a minute.
    public var isDeviceClockWrong: Bool {
        offset.map { $0 > .seconds(60) || $0 < .seconds(-60) } ?? false
    }
}

extension EntitlementStore {
    /// The state of this device's clock. Needs no network.
    public var clockStatus: ClockStatus {
        let now = clock.now
        let contact = clock.marks.contact
        return ClockStatus(
            now: now, offset: contact.map { _ in .milliseconds(clock.marks.offset) },
            lastContact: contact?.serverTime, remote: contact?.remote)
    }
}
