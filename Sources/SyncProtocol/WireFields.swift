public import HTTPTypes
public import SyncCore

/// The header fields of the wire that RFC 9110 does not define.
public enum WireFields {
    /// The server's clock when it answered: milliseconds since 1970 UTC, in decimal digits. `Date` has whole seconds
    /// only.
    public static let serverTime = "EntitlementSync-Time"

    /// The entity tag of what the server has decided about a ledger, in the answers about that ledger, where it has
    /// decided anything.
    public static let decisions = "EntitlementSync-Decisions"

    private static let serverTimeName = HTTPField.Name(serverTime)
    private static let decisionsName = HTTPField.Name(decisions)

    /// The version of the server's decisions that an answer about a ledger tells of; `nil` for none.
    public static func decisions(of response: HTTPResponse) -> EntryVersion? {
        guard let name = decisionsName, let field = response.headerFields.value(of: name),
            case .tags(let tags) = TagCondition(field), tags.count == 1
        else { return nil }
        return tags[0].version
    }

    /// Notes the version of the server's decisions in `fields`.
    public static func note(decisions version: EntryVersion, in fields: inout HTTPFields) {
        guard let name = decisionsName else { return }
        fields[name] = EntityTag(version).description
    }

    /// The server's clock of an answer that comes from it directly; `nil` where it does not say, and for an answer that
    /// a cache kept, which says so by `Age`.
    public static func serverTime(of response: HTTPResponse) -> Int64? {
        guard let name = serverTimeName, !response.headerFields.contains(.age),
            let text = response.headerFields.value(of: name), let time = Int64(text),
            (0...253_402_300_799_999).contains(time)
        else { return nil }
        return time
    }

    /// Notes the server's clock in `fields`.
    public static func note(serverTime time: Int64, in fields: inout HTTPFields) {
        guard let name = serverTimeName else { return }
        fields[name] = String(time)
    }
}

extension HTTPFields {
    /// The value of `self[name]`, without a copy if there is only one field of that name.
    package func value(of name: HTTPField.Name) -> String? {
        var value: String?
        for field in self where field.name == name {
            if value != nil { return self[name] }
            value = field.value
        }
        return value
    }

    /// The media type of `Content-Type` in lower case, without its parameters; `nil` if the field is missing.
    package var mediaType: String? {
        value(of: .contentType)?.prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" }.lowercased()
    }
}

extension WireFields {
    /// The position from which a stream of events is to go on (the WHATWG's server-sent events).
    public static let lastEventID = "Last-Event-ID"
}

extension Problem {
    private static let postponement = "urn:entitlementsync:problem:postponed"

    /// The result of an operation of a batch that was not begun, because the answer is long enough already.
    public static var postponed: Problem {
        var problem = Problem(
            BackendError(.busy, disposition: .transient, message: "the answer is full; ask for this once more"))
        (problem.type, problem.title) = (postponement, "postponed")
        return problem
    }

    /// Whether an operation of a batch was not begun, because the answer was long enough.
    public var isPostponed: Bool { type == Self.postponement }

    private static let omission = "urn:entitlementsync:problem:value-left-out"

    /// The problem of a conflict (412) whose answer has no room for the value of the entry. The client reads the key to
    /// get the value.
    ///
    /// The version is a member of the problem and not the answer's `ETag`: a client that does not know this problem
    /// takes the body of a 412 with an `ETag` for the value.
    public static func valueLeftOut(_ key: EntryKey, _ version: EntryVersion) -> Problem {
        var problem = Problem(
            .preconditionFailed, "the condition did not hold; the value was left out for lack of room: read the key")
        (problem.type, problem.title, problem.key) = (omission, "value left out", key.text)
        problem.version = EntityTag(version).description
        return problem
    }

    /// Indicates whether it is a conflict whose value was left out.
    public var isValueLeftOut: Bool { type == Self.omission }

    private static let absence = "urn:entitlementsync:problem:absent"

    /// The answer that a key holds nothing: the server has looked. A 404 that does not say so may be any server's.
    public static func absent(_ key: EntryKey, status: HTTPResponse.Status) -> Problem {
        var problem = Problem(status, "nothing is stored under this key")
        problem.type = absence
        problem.title = "absent"
        problem.key = key.text
        return problem
    }

    /// Whether it is the answer that a key holds nothing.
    public var isAbsence: Bool { type == Self.absence }
}
