public import HTTPTypes
public import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Why a request was not done, as `application/problem+json` (RFC 9457): the status for everybody on the way, and kind
/// and disposition for the program that asked.
///
/// ```json
/// {"detail":"no space is left; free some","disposition":"permanent","key":"a/b","kind":"full","status":507,
///  "title":"full","type":"urn:entitlementsync:problem:full"}
/// ```
public struct Problem: Hashable, Sendable, Codable {
    /// The media type of its JSON.
    public static let mediaType = "application/problem+json"
    private static let typePrefix = "urn:entitlementsync:problem:"

    /// What of: the kind, as a URN. `about:blank` where the status says it all.
    public var type: String
    /// The kind in a word.
    public var title: String
    /// The status of the response.
    public var status: Int
    /// One line for a person: what is wrong and what to do.
    public var detail: String
    /// The kind of the storage contract, where it is one of those.
    public var kind: String?
    /// Whether it may have happened, and whether to try again.
    public var disposition: String?
    /// Which key it was about.
    public var key: String?
    /// The entity tag of the entry that stood against a write, if its value was left out of the answer.
    public var version: String?
    /// The error's name in OAuth 2.0 (RFC 6749, section 5.2; RFC 8628, section 3.5), of log-ins that are refused.
    public var error: String?

    /// A problem that is none of the storage contract's: a path that is not there, a missing credential.
    public init(_ status: HTTPResponse.Status, _ detail: String) {
        type = "about:blank"
        title = status.reasonPhrase
        self.status = status.code
        self.detail = detail
    }

    /// The problem that a client gets told of `error`.
    ///
    /// - Parameter detail: instead of the error's own message, where that names what is the server's affair, such as
    ///   the path of a file.
    public init(_ error: BackendError, detail: String? = nil) {
        let name = error.kind.description
        type = Self.typePrefix + name
        title = name
        status = Self.status(of: error).code
        self.detail = detail ?? error.message
        kind = name
        disposition = error.disposition.rawValue
        key = error.key?.text
    }

    /// The status of `error`: of 400 to 499 what the client can mend, else of the server.
    public static func status(of error: BackendError) -> HTTPResponse.Status {
        if error.disposition == .outcomeUnknown { return .internalServerError }
        return switch error.kind {
        case .invalidKey, .invalidCursor: .badRequest
        case .tooLarge: .contentTooLarge
        case .cursorExpired: .gone
        case .permissionDenied: .forbidden
        case .refused: .unprocessableContent
        case .full: HTTPResponse.Status(code: 507, reasonPhrase: "Insufficient Storage")
        case .unsupported: .notImplemented
        case .busy, .unavailable, .missing, .cancelled: .serviceUnavailable
        default: .internalServerError
        }
    }

    /// Reads the body of a response; `nil` where it is no problem.
    public init?(json: [UInt8]) {
        guard let problem = try? JSONDecoder().decode(Problem.self, from: Data(json)) else { return nil }
        self = problem
    }

    /// Its JSON, members in the order of their names.
    public var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Strings and a number: nothing in it can fail to be encoded.
        guard let data = try? encoder.encode(self) else { return Array("{}".utf8) }
        return Array(data)
    }

    /// The error that this problem tells of, for a call that can have done something or not.
    ///
    /// - Parameters:
    ///   - operation: what was asked for.
    ///   - asked: the key that was asked for.
    ///   - retryAfter: how long the server asked to be left alone.
    public func error(
        during operation: BackendError.Operation, key asked: EntryKey? = nil, retryAfter: Duration? = nil
    ) -> BackendError {
        let known = kind.flatMap { BackendError.Kind(name: $0) }
        let kind = known ?? Self.kind(ofStatus: status)
        let told = disposition.flatMap { BackendError.Disposition(rawValue: $0) }
        // A server that does not say may have done it before it failed.
        let isOpen = told == nil && status >= 500 && (operation == .write || operation == .delete)
        return BackendError(
            kind, operation: operation, key: asked, disposition: told ?? (isOpen ? .outcomeUnknown : nil),
            message: detail.isEmpty ? "the server answered \(status) \(title)" : detail, retryAfter: retryAfter)
    }

    /// What a status means whose body says nothing: of a proxy on the way, most often.
    static func kind(ofStatus status: Int) -> BackendError.Kind {
        switch status {
        case 401, 403: .permissionDenied
        case 404: .notAStore
        case 410: .cursorExpired
        case 413: .tooLarge
        case 422: .refused
        case 429: .busy
        case 501: .unsupported
        case 507: .full
        case 408, 500...599: .unavailable
        default: .other
        }
    }
}
