import Entitlements

/// What this device knows about time besides its own wall clock. A value; time arrives as a value.
///
/// now = max(wall clock + offset, mark, soft mark). A live answer of a server replaces all three, backwards too: then a
/// clock that ran ahead, the device's or by mistake the server's, locks nobody out after the next answer. The soft mark
/// is the greatest now seen since that answer, so that setting the clock back revives nothing beyond what passed
/// unseen. Before the first answer there is no soft mark: a device that never meets a server has nobody who could
/// correct it, and believes its clock.
struct ClockMarks: Hashable, Sendable {
    /// Who said what time it is, and when.
    struct Contact: Hashable, Sendable {
        /// The server's time.
        var serverTime: Timestamp
        /// The device's wall clock when the answer came.
        var wallClock: Timestamp
        /// The remote's label.
        var remote: String
        /// Counts the contacts of this device that were kept, whichever process had them: the higher number knows
        /// better.
        var number: UInt64 = 1
    }

    /// The last answer; `nil` before the first.
    var contact: Contact?
    /// The greatest time seen since then, or vouched for by a store's signature.
    var softMark = Timestamp.earliest

    /// The longest round trip, in milliseconds, whose answer is believed: it is as exact as the trip was short.
    static let longestRoundTrip: Int64 = 120_000

    /// The server's time minus the device's, in milliseconds; 0 before the first answer.
    var offset: Int64 {
        contact.map { $0.serverTime.milliseconds - $0.wallClock.milliseconds } ?? 0
    }

    /// The time, when the wall clock shows `wall`.
    func now(at wall: Timestamp) -> Timestamp {
        max(shown(at: wall), contact?.serverTime ?? .earliest, softMark)
    }

    /// The wall clock, corrected; no mark holds it.
    func shown(at wall: Timestamp) -> Timestamp {
        let (sum, overflow) = wall.milliseconds.addingReportingOverflow(offset)
        return overflow ? wall : Timestamp(milliseconds: sum)
    }

    /// Notes that this time was seen.
    mutating func see(_ now: Timestamp) {
        if contact != nil { softMark = max(softMark, now) }
    }

    /// Notes a date that a store has signed: it is at least that late.
    mutating func vouch(for date: Timestamp) {
        softMark = max(softMark, date)
    }

    /// Keeps `before`, which this device took for now, where it is ahead of the marks by no more than so many
    /// milliseconds: as exact as that they are not, and time that goes back puts what was just bought into the future.
    mutating func keep(_ before: Timestamp, ifAheadByAtMost tolerance: Int64, at wall: Timestamp) {
        let ahead = before.milliseconds.subtractingReportingOverflow(now(at: wall).milliseconds)
        if !ahead.overflow, (0...tolerance).contains(ahead.partialValue) { see(before) }
    }

    /// Takes the time from a live answer, which `sent` asked for and which came at `received`, both by the wall clock.
    /// The server looked at its clock in between, so that the time is right to within the round trip, and never ahead.
    /// What this device took for now stays where the answer does not contradict it: somebody who bought while the
    /// answer was under way would otherwise have bought in the future.
    ///
    /// - Parameter number: one more than that of the last contact that was kept: of those that nobody has kept yet,
    ///   each process has its own.
    /// - Returns: whether the answer was believed: a round trip is not negative and not longer than
    ///   ``longestRoundTrip``. Otherwise the wall clock was moved meanwhile, or the answer is stale.
    mutating func meet(
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

    /// The marks as text: a head, a line for each part, and an end.
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

    /// Reads marks; `nil` when these are none.
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
