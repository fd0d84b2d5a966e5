public import HTTPTypes
public import SyncCore

/// The header fields of the protocol that RFC 9110 does not define.
public enum WireFields {
    /// The server's clock at the time of the answer: milliseconds since 1970 UTC, in decimal digits. `Date` has a
    /// resolution of seconds only.
    public static let serverTime = "EntitlementSync-Time"

    /// The entity tag of the server's decisions about a ledger. Answers about the ledger carry it once there are
    /// decisions.
    public static let decisions = "EntitlementSync-Decisions"

    /// The header field that makes an operator's act happen once.
    public static let idempotencyKey = "Idempotency-Key"

    private static let serverTimeName = HTTPField.Name(serverTime)
    private static let decisionsName = HTTPField.Name(decisions)

    /// The version of the server's decisions in an answer about a ledger; `nil` for none.
    public static func decisions(of response: HTTPResponse) -> EntryVersion? {
        guard let name = decisionsName, let field = response.headerFields.value(of: name),
            case .tags(let tags) = TagCondition(field), tags.count == 1
        else { return nil }
        return tags[0].version
    }

    /// Adds the version of the server's decisions to `fields`.
    package static func add(decisions version: EntryVersion, to fields: inout HTTPFields) {
        guard let name = decisionsName else { return }
        fields[name] = EntityTag(version).description
    }

    /// The server's clock in an answer that comes directly from the server. `nil` if the answer does not state it, and
    /// for an answer from a cache, which has an `Age` field.
    public static func serverTime(of response: HTTPResponse) -> Int64? {
        guard let name = serverTimeName, !response.headerFields.contains(.age),
            let text = response.headerFields.value(of: name), let time = Int64(text),
            (0...253_402_300_799_999).contains(time)
        else { return nil }
        return time
    }

    /// Adds the server's clock to `fields`.
    package static func add(serverTime time: Int64, to fields: inout HTTPFields) {
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
    /// The position after which a stream of events resumes (server-sent events, WHATWG).
    public static let lastEventID = "Last-Event-ID"

    /// The media type of a stream of server-sent events.
    package static let eventStream = "text/event-stream"

    private static let proxyBuffering = HTTPField.Name("X-Accel-Buffering")

    /// Adds the header fields of a stream of server-sent events. They make proxies pass on each event at once: nginx
    /// otherwise collects the answer until a buffer is full, and others compress it as a whole.
    package static func addEventStreamFields(to fields: inout HTTPFields) {
        fields[.contentType] = eventStream
        fields[.cacheControl] = "no-store, no-transform"
        if let proxyBuffering { fields[proxyBuffering] = "no" }
    }
}

extension Problem {
    private static let postponement = "urn:entitlementsync:problem:postponed"

    /// The result of an operation of a batch that was not started, because the answer had no room for another value.
    package static var postponed: Problem {
        var problem = Problem(
            BackendError(.busy, disposition: .transient, message: "the answer is full; send this operation again"))
        (problem.type, problem.title) = (postponement, "postponed")
        return problem
    }

    /// True if an operation of a batch was not started, because the answer had no room for another value. The client
    /// sends the operation again.
    public var isPostponed: Bool { type == Self.postponement }

    private static let omission = "urn:entitlementsync:problem:value-left-out"

    /// The problem of a conflict (412) whose answer has no room for the value of the entry. The client reads the key to
    /// get the value.
    ///
    /// The version is a member of the problem and is not in the answer's `ETag`: a client that does not know this
    /// problem would take the body of a 412 with an `ETag` for the value.
    package static func valueLeftOut(_ key: EntryKey, _ version: EntryVersion) -> Problem {
        var problem = Problem(
            .preconditionFailed, "the condition did not hold, and the answer has no room for the value; read the key")
        (problem.type, problem.title, problem.key) = (omission, "value left out", key.text)
        problem.version = EntityTag(version).description
        return problem
    }

    /// True if the problem is a conflict whose value was left out. The client reads the key to get the value.
    public var isValueLeftOut: Bool { type == Self.omission }

    private static let absence = "urn:entitlementsync:problem:absent"

    /// The answer that a key holds nothing, after the server has read the store. A 404 of any other type may come from
    /// any server.
    package static func absent(_ key: EntryKey, status: HTTPResponse.Status) -> Problem {
        var problem = Problem(status, "nothing is stored under this key")
        problem.type = absence
        problem.title = "absent"
        problem.key = key.text
        return problem
    }

    /// True if the problem states that a key holds nothing.
    public var isAbsence: Bool { type == Self.absence }
}
