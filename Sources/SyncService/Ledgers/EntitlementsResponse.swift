import Entitlements
import SyncCore

/// The entitlements of one ledger: the JSON of `/v1/entitlements`, and the access. Both are valid until the next
/// boundary; only the member `at` differs.
struct EntitlementsResponse: Sendable {
    /// The answer at one instant.
    struct Reading: Sendable {
        /// The access to every entitlement.
        let access: [Snapshot.EntitlementAccess]
        /// The JSON of `/v1/entitlements`.
        let json: [UInt8]
    }

    /// The versions from which it was derived; `nil` for an absent entry.
    let (ledger, serverLedger): (EntryVersion?, EntryVersion?)
    /// The first instant for which the answer is valid.
    private let start: Timestamp
    /// The first later instant at which the answer may change; `nil` for none.
    private let end: Timestamp?
    private let access: [Snapshot.EntitlementAccess]
    /// The JSON before and after the text of `at`.
    private let (head, tail): ([UInt8], [UInt8])

    /// The answer about `replay` at `instant`.
    init(_ replay: Replay, at instant: Timestamp, account: String, ledger: EntryVersion?, serverLedger: EntryVersion?) {
        (self.ledger, self.serverLedger, start) = (ledger, serverLedger, instant)
        let snapshot = replay.snapshot(at: instant)
        access = snapshot.access
        let json = Array(snapshot.json(account: account).text().utf8)
        // Quotation marks in a string are escaped, so only the member itself matches.
        let member = json.firstRange(of: "\"at\": \"".utf8) ?? json.startIndex..<json.startIndex
        let text = "\(instant)".utf8
        head = Array(json[..<member.upperBound])
        tail = Array(json[member.upperBound...].dropFirst(member.isEmpty ? 0 : text.count))
        guard !member.isEmpty else {
            end = instant
            return
        }
        let ends = snapshot.subscriptions.compactMap(\.dayEnd) + [replay.nextBoundary(after: instant)].compactMap { $0 }
        end = ends.min()
    }

    /// Returns `true` if the answer is valid at `instant`.
    func holds(at instant: Timestamp) -> Bool { instant >= start && end.map { instant < $0 } ?? true }

    /// The answer at `instant`, at which it must be valid.
    func reading(at instant: Timestamp) -> Reading { Reading(access: access, json: json(at: instant)) }

    private func json(at instant: Timestamp) -> [UInt8] {
        guard end != start else { return head + tail }
        let text = "\(instant)".utf8
        var json: [UInt8] = []
        json.reserveCapacity(byteCount + text.count)
        json += head
        json += text
        json += tail
        return json
    }

    /// The number of bytes that the answer occupies.
    var byteCount: Int { head.count + tail.count + access.count * 64 }
}

extension Snapshot.Subscription {
    /// The instant at which ``daysRemaining`` becomes smaller.
    fileprivate var dayEnd: Timestamp? {
        guard daysRemaining > 0, let expires else { return nil }
        return Timestamp(milliseconds: expires.milliseconds - Int64(daysRemaining - 1) * 86_400_000)
    }
}
