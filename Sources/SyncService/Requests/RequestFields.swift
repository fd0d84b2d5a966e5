import Entitlements
package import HTTPTypes
package import SyncProtocol

/// The members of a request's body: a JSON object, or a form (`application/x-www-form-urlencoded`) for clients of
/// OAuth 2.0 (RFC 6749).
package struct RequestFields {
    private var texts: [String: String] = [:]
    private var flags: [String: Bool] = [:]
    /// The names of all members, whatever their values.
    private(set) var names: Set<String> = []

    /// The longest body, in bytes. Anonymous clients send such bodies; names, passwords and tokens have 1 KiB each.
    private static let maximumByteCount = 1 << 16

    /// Reads a body.
    ///
    /// - Throws: ``RequestError`` for a body that is too long or malformed, or has a member twice.
    package init(_ body: [UInt8], _ fields: HTTPFields) throws(RequestError) {
        guard body.count <= Self.maximumByteCount else {
            throw RequestError(.contentTooLarge, "the body must have at most \(Self.maximumByteCount) bytes")
        }
        let type = (fields[.contentType] ?? "application/json").lowercased()
        let media = type.prefix { $0 != ";" && $0 != " " }
        switch media {
        case "application/json": try readJSON(body)
        case "application/x-www-form-urlencoded": try readForm(body)
        default: throw RequestError(.unsupportedMediaType, "the body must be application/json or a form")
        }
    }

    private mutating func readJSON(_ body: [UInt8]) throws(RequestError) {
        guard !body.isEmpty else { return }
        let value: JSON
        do throws(InputError) { value = try JSON(parsing: body) } catch {
            throw RequestError(.badRequest, "the body must be a JSON object: \(error)")
        }
        guard let members = value.members else {
            throw RequestError(.badRequest, "the body must be a JSON object, not \(value.typeName)")
        }
        names = Set(members.keys)
        for (name, member) in members {
            switch member {
            case .string(let text): texts[name] = text
            case .bool(let flag): flags[name] = flag
            default: break
            }
        }
    }

    private mutating func readForm(_ body: [UInt8]) throws(RequestError) {
        // In a form a plus sign is a space.
        let text = String(decoding: body.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }, as: UTF8.self)
        guard let form = WireQuery(text[...]) else {
            throw RequestError(.badRequest, "the form must be percent-encoded UTF-8")
        }
        for pair in form.pairs {
            guard texts.updateValue(pair.value, forKey: pair.name) == nil else {
                throw RequestError(.badRequest, "the form has a member twice")
            }
        }
        flags = texts.compactMapValues { Bool($0) }
        names = Set(texts.keys)
    }

    /// The text member called `name`.
    package func text(_ name: String) throws(RequestError) -> String {
        guard let text = texts[name] else {
            throw RequestError(
                .badRequest, "the member \"\(name)\" must be present, and a text", code: "invalid_request")
        }
        return text
    }

    /// The text member called `name`, if it is present.
    package func optionalText(_ name: String) -> String? { texts[name] }

    /// The Boolean member called `name`, if it is present.
    package func optionalFlag(_ name: String) throws(RequestError) -> Bool? {
        names.contains(name) ? try flag(name) : nil
    }

    /// The Boolean member called `name`.
    package func flag(_ name: String) throws(RequestError) -> Bool {
        guard let flag = flags[name] else {
            throw RequestError(.badRequest, "the member \"\(name)\" must be present, and true or false")
        }
        return flag
    }
}

extension HTTPFields {
    /// Returns `true` if `If-None-Match` names `tag` by weak comparison (RFC 9110, section 13.1.2), and `nil` if the
    /// field is malformed.
    package func isKnown(_ tag: EntityTag) -> Bool? {
        guard let field = self[.ifNoneMatch] else { return false }
        return switch TagCondition(field) {
        case nil: nil
        case .anything: true
        case .tags(let tags): tags.contains { $0.text == tag.text }
        }
    }

    /// Checks that the body is JSON.
    func checkJSON() throws(RequestError) {
        guard mediaType == "application/json" else {
            throw RequestError(.unsupportedMediaType, "the body must be application/json")
        }
    }
}

/// The refusal of a request for a reason that the client can act on.
package struct RequestError: Error {
    package var status: HTTPResponse.Status
    package var detail: String
    /// The OAuth 2.0 error code (RFC 6749, section 5.2; RFC 8628, section 3.5), if one applies.
    package var code: String?
    /// The time to wait before the next attempt, in seconds.
    package var retryAfter: Int64?

    package init(_ status: HTTPResponse.Status, _ detail: String, code: String? = nil, retryAfter: Int64? = nil) {
        (self.status, self.detail, self.code, self.retryAfter) = (status, detail, code, retryAfter)
    }

    /// The response that carries the refusal.
    package var response: ServiceResponse {
        var problem = Problem(status, detail)
        problem.error = code
        var response = ServiceResponse.problem(problem)
        if let retryAfter { response.head.headerFields[.retryAfter] = String(retryAfter) }
        return response
    }
}
