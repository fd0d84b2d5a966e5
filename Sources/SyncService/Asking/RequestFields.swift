import HTTPTypes
import SyncProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The members of a request's body: a JSON object, or a form (`application/x-www-form-urlencoded`) where the
/// protocol that a client speaks asks for it (RFC 6749).
struct RequestFields {
    private var texts: [String: String] = [:]
    private var flags: [String: Bool] = [:]

    /// The longest body, in bytes: names, passwords and tokens have 1 KiB each. Strangers send them.
    private static let maximumByteCount = 1 << 16

    /// Reads a body; throws what is wrong with it.
    init(_ body: [UInt8], _ fields: HTTPFields) throws(RequestError) {
        guard body.count <= Self.maximumByteCount else {
            throw RequestError(.contentTooLarge, "a body has at most \(Self.maximumByteCount) bytes here")
        }
        let type = (fields[.contentType] ?? "application/json").lowercased()
        let media = type.prefix { $0 != ";" && $0 != " " }
        switch media {
        case "application/json": try readJSON(body)
        case "application/x-www-form-urlencoded": try readForm(body)
        default: throw RequestError(.unsupportedMediaType, "the body is application/json or a form")
        }
    }

    private mutating func readJSON(_ body: [UInt8]) throws(RequestError) {
        guard !body.isEmpty else { return }
        let members: [String: Member]
        do { members = try JSONDecoder().decode([String: Member].self, from: Data(body)) } catch {
            throw RequestError(.badRequest, "the body is no JSON object")
        }
        for (name, member) in members {
            switch member {
            case .text(let text): texts[name] = text
            case .flag(let flag): flags[name] = flag
            case .other: break
            }
        }
    }

    private mutating func readForm(_ body: [UInt8]) throws(RequestError) {
        // In a form a plus sign is a space.
        let text = String(decoding: body.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }, as: UTF8.self)
        guard let form = WireQuery(text[...]) else {
            throw RequestError(.badRequest, "the form is not percent-encoded UTF-8")
        }
        for pair in form.pairs {
            guard texts.updateValue(pair.value, forKey: pair.name) == nil else {
                throw RequestError(.badRequest, "the form has a member twice")
            }
        }
        flags = texts.compactMapValues { Bool($0) }
    }

    private enum Member: Decodable {
        case text(String)
        case flag(Bool)
        case other

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let text = try? container.decode(String.self) {
                self = .text(text)
            } else if let flag = try? container.decode(Bool.self) {
                self = .flag(flag)
            } else {
                self = .other
            }
        }
    }

    /// The text called `name`.
    func text(_ name: String) throws(RequestError) -> String {
        guard let text = texts[name] else {
            throw RequestError(.badRequest, "the member \"\(name)\" is missing, or is no text", code: "invalid_request")
        }
        return text
    }

    /// The text called `name`, if it is there.
    func optionalText(_ name: String) -> String? { texts[name] }

    /// The flag called `name`.
    func flag(_ name: String) throws(RequestError) -> Bool {
        guard let flag = flags[name] else {
            throw RequestError(.badRequest, "the member \"\(name)\" is missing, or neither true nor false")
        }
        return flag
    }
}

/// A request that is not done, for a reason that is the client's.
struct RequestError: Error {
    var status: HTTPResponse.Status
    var detail: String
    /// The error of OAuth 2.0 (RFC 6749, section 5.2; RFC 8628, section 3.5), where it is one of those.
    var code: String?
    /// When to try again, in seconds.
    var retryAfter: Int64?

    init(_ status: HTTPResponse.Status, _ detail: String, code: String? = nil, retryAfter: Int64? = nil) {
        (self.status, self.detail, self.code, self.retryAfter) = (status, detail, code, retryAfter)
    }

    var answer: TransportAnswer {
        var problem = Problem(status, detail)
        problem.error = code
        var answer = TransportAnswer.problem(problem)
        if let retryAfter { answer.response.headerFields[.retryAfter] = String(retryAfter) }
        return answer
    }
}
