import Entitlements

/// The times that correct this device's wall clock. A pure value: every time is a parameter.
///
/// now = max(wall clock + offset, server time of the last contact, soft mark). The answer of a server replaces all
/// three, also with earlier times, so that a clock that ran ahead, the device's or the server's, denies access only
/// until the next answer. The soft mark is the greatest time seen since that answer, so that setting the clock back
/// reactivates nothing that has expired before. Before the first answer only dates signed by stores
/// raise it: a device without a server could not correct a mark from its own clock, so it trusts that clock.
struct ClockMarks: Hashable, Sendable {
    /// The last time a server reported its clock.
    struct Contact: Hashable, Sendable {
        /// The server's time.
        var serverTime: Timestamp
        /// The device's wall clock when the answer arrived.
        var wallClock: Timestamp
        /// The remote's label.
        var remote: String
        /// The contact's sequence number, shared by all processes of this device. A higher number is more recent.
        var number: UInt64 = 1
    }

    /// The most recent contact; `nil` before the first.
    var contact: Contact?
    /// The greatest time seen since the last contact, or the latest date signed by a store if that is greater.
    var softMark = Timestamp.earliest

    /// The longest round trip, in milliseconds, whose answer is accepted. The error of an answer is at most its round
    /// trip.
    static let longestRoundTrip: Int64 = 120_000

    /// The server's time minus the device's, in milliseconds; 0 before the first contact.
    var offset: Int64 {
        contact.map { $0.serverTime.milliseconds - $0.wallClock.milliseconds } ?? 0
    }

    /// Returns the time when the wall clock shows `wall`.
    func now(at wall: Timestamp) -> Timestamp {
        max(corrected(at: wall), contact?.serverTime ?? .earliest, softMark)
    }

    /// Returns the corrected wall clock, which can be earlier than the marks.
    func corrected(at wall: Timestamp) -> Timestamp {
        let (sum, overflow) = wall.milliseconds.addingReportingOverflow(offset)
        return overflow ? wall : Timestamp(milliseconds: sum)
    }

    /// Raises the soft mark to a time that was seen. Does nothing before the first contact.
    mutating func observe(_ now: Timestamp) {
        if contact != nil { softMark = max(softMark, now) }
    }

    /// Raises the soft mark to a date that a store has signed: the present is at least that late.
    mutating func raise(toSignedDate date: Timestamp) {
        softMark = max(softMark, date)
    }

    /// Keeps `before`, the time before a correction, if it is ahead of the marks by at most `tolerance` milliseconds.
    ///
    /// The correction may be wrong by that much. If the time went back, a recent purchase would be dated in the future.
    mutating func keep(_ before: Timestamp, ifAheadByAtMost tolerance: Int64, at wall: Timestamp) {
        let ahead = before.milliseconds.subtractingReportingOverflow(now(at: wall).milliseconds)
        if !ahead.overflow, (0...tolerance).contains(ahead.partialValue) { observe(before) }
    }

    /// Accepts the time of a server's answer. Request and answer happened at `sent` and `received` by the wall clock.
    ///
    /// The server read its clock in between, so the accepted time is never ahead, and behind by at most the round trip.
    /// The previous time is kept if the answer does not contradict it. Otherwise a purchase made during the request
    /// would be dated in the future.
    ///
    /// - Parameter number: The number of the last stored contact plus one. Processes may use the same number for
    ///   different contacts until one of them is stored.
    /// - Returns: `true` if the answer was accepted. It is rejected if the round trip is negative or longer than
    ///   ``longestRoundTrip``: the wall clock was moved in the meantime, or the answer is stale.
    mutating func accept(
        _ serverTime: Timestamp, of remote: String, number: UInt64, sent: Timestamp, received: Timestamp
    ) -> Bool {
        let (trip, overflow) = received.milliseconds.subtractingReportingOverflow(sent.milliseconds)
        guard !overflow, (0...Self.longestRoundTrip).contains(trip) else { return false }
        let before = now(at: received)
        contact = Contact(serverTime: serverTime, wallClock: received, remote: remote, number: number)
        softMark = serverTime
        keep(before, ifAheadByAtMost: trip, at: received)
        return true
    }
}

extension ClockMarks {
    private static let head = "entitlementsync clock 1"

    /// The encoded marks: a header line, a line for each part, and an end line.
    var bytes: [UInt8] {
        var lines = [Self.head, "soft \(softMark.milliseconds)"]
        if let contact {
            lines += [
                "number \(contact.number)", "server \(contact.serverTime.milliseconds)",
                "wall \(contact.wallClock.milliseconds)",
                "remote \(contact.remote.map { $0.isNewline ? " " : $0 }.map(String.init).joined())",
            ]
        }
        return Array((lines + ["end", ""]).joined(separator: "\n").utf8)
    }

    /// Decodes marks; `nil` if the bytes are malformed.
    init?(_ bytes: [UInt8]) {
        guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        guard lines.first == Self.head, Array(lines.suffix(2)) == ["end", ""], [4, 8].contains(lines.count),
            let soft = Self.number(in: lines[1], after: "soft ")
        else { return nil }
        softMark = soft
        guard lines.count == 8 else { return }
        guard lines[2].hasPrefix("number "), let number = UInt64(lines[2].dropFirst(7)),
            let server = Self.number(in: lines[3], after: "server "),
            let wall = Self.number(in: lines[4], after: "wall "), lines[5].hasPrefix("remote ")
        else { return nil }
        contact = Contact(
            serverTime: server, wallClock: wall, remote: String(lines[5].dropFirst(7)), number: number)
    }

    private static func number(in line: String, after name: String) -> Timestamp? {
        guard line.hasPrefix(name) else { return nil }
        return Int64(line.dropFirst(name.count)).map(Timestamp.init(milliseconds:))
    }
}
