public import Entitlements

/// Which clock an ``EntitlementStore`` decides by.
public enum ClockSource: Hashable, Sendable {
    /// The host's clock, corrected by the time that remotes answer with and that stores sign. The default.
    case trusted
    /// The host's clock alone: for tests, and for support that asks "what was on that day".
    case host
}

/// What an ``EntitlementStore`` knows about this device's clock.
public struct ClockStatus: Hashable, Sendable {
    /// The time by which access is decided.
    public var now: Timestamp
    /// By how much the remote's clock was ahead of this device's at the last contact, less than nothing when it was
    /// behind; `nil` when no remote has said what time it is. Right to within the round trip of that answer.
    public var offset: Duration?
    /// The remote's time at the last contact.
    public var lastContact: Timestamp?
    /// The remote that said so.
    public var remote: String?

    /// Whether this device's clock is known to be off by more than a minute.
    public var isDeviceClockWrong: Bool {
        offset.map { $0 > .seconds(60) || $0 < .seconds(-60) } ?? false
    }
}

extension EntitlementStore {
    /// What is known about this device's clock. Needs no network.
    public var clockStatus: ClockStatus {
        let now = clock.now
        let contact = clock.marks.contact
        return ClockStatus(
            now: now, offset: contact.map { _ in .milliseconds(clock.marks.offset) },
            lastContact: contact?.serverTime, remote: contact?.remote)
    }
}
