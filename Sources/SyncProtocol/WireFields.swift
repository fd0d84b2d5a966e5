public import HTTPTypes
public import SyncCore

/// What the wire says beyond RFC 9110.
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
    /// What `self[name]` is, without a copy where there is one field of that name.
    package func value(of name: HTTPField.Name) -> String? {
        var value: String?
        for field in self where field.name == name {
            if value != nil { return self[name] }
            value = field.value
        }
        return value
    }
}

extension WireFields {
    /// The position from which a stream of events is to go on (the WHATWG's server-sent events).
    public static let lastEventID = "Last-Event-ID"
}

extension WireFields {
    /// What a client names its request by: 1 to 64 visible ASCII characters that nobody repeats. The server's answer
    /// has the same, so that a client whose answers were mixed up on the way (a proxy that sends one twice, and all
    /// after it one too late) takes none for that of another request.
    public static let requestID = "EntitlementSync-Request-ID"

    /// Copies the name of a request to its answer, where it has one.
    ///
    /// - Parameters:
    ///   - request: the request's fields.
    ///   - fields: the answer's.
    public static func noteRequestID(of request: HTTPFields, in fields: inout HTTPFields) {
        guard let name = HTTPField.Name(requestID), let id = request[name], (1...64).contains(id.utf8.count),
            id.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return }
        fields[name] = id
    }
}

extension HTTPTransport {
    /// Sends `request` as ``send(_:body:timeout:maximumByteCount:)`` does, under a name of its own, and takes no
    /// answer that has another one. An answer without any is taken: it may be a proxy's, which says what is wrong.
    ///
    /// - Parameter id: 64 bits that no other request has.
    /// - Throws: what the transport throws, and ``TransportError/Kind/interrupted`` for another request's answer.
    package func exchange(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int, id: UInt64
    ) async throws(TransportError) -> TransportAnswer {
        guard let name = HTTPField.Name(WireFields.requestID) else {
            return try await send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
        }
        let id = String(id, radix: 16)
        var request = request
        request.headerFields[name] = id
        let answer = try await send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
        guard let other = answer.response.headerFields[name], other != id else { return answer }
        throw TransportError(
            .interrupted, mayHaveArrived: true,
            message: "what came is the answer to another request; something on the way mixes them up")
    }
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
