package import HTTPTypes
public import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The reason why a request failed, as `application/problem+json` (RFC 9457). The status is for every intermediary; the
/// kind and the disposition are for the client.
///
/// ```json
/// {"detail":"no space is left; free some","disposition":"permanent","key":"a/b","kind":"full","status":507,
///  "title":"full","type":"urn:entitlementsync:problem:full"}
/// ```
public struct Problem: Hashable, Sendable, Codable {
    /// The media type of its JSON.
    public static let mediaType = "application/problem+json"
    private static let typePrefix = "urn:entitlementsync:problem:"

    /// The category as a URN; `about:blank` if the status says everything.
    public var type: String
    /// The category in a few words.
    public var title: String
    /// The status of the response.
    public var status: Int
    /// One line for people: what is wrong and what to do about it.
    public var detail: String
    /// The `BackendError.Kind` of the error, if it is an error of the storage contract.
    public var kind: String?
    /// The `BackendError.Disposition` of the error: whether it may have taken effect, and whether to retry.
    public var disposition: String?
    /// The key concerned.
    public var key: String?
    /// The entity tag of the entry that a write conflicted with, if its value was left out of the answer.
    public var version: String?
    /// The OAuth 2.0 error code (RFC 6749, section 5.2; RFC 8628, section 3.5) of a rejected log-in.
    public var error: String?

    /// A problem outside the storage contract, such as an unknown path or a missing credential.
    package init(_ status: HTTPResponse.Status, _ detail: String) {
        type = "about:blank"
        title = status.reasonPhrase
        self.status = status.code
        self.detail = detail
    }

    /// The problem that reports `error` to a client.
    ///
    /// - Parameter detail: A replacement for the error's own message, if that contains details that clients must not
    ///   see, such as the path of a file.
    package init(_ error: BackendError, detail: String? = nil) {
        let name = error.kind.description
        type = Self.typePrefix + name
        title = name
        status = Self.status(of: error).code
        self.detail = detail ?? error.message
        kind = name
        disposition = error.disposition.rawValue
        key = error.key?.text
    }

    /// The status for `error`: 400 to 499 if the client can correct the request, otherwise 500 or above.
    package static func status(of error: BackendError) -> HTTPResponse.Status {
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

    /// Reads the body of a response; `nil` if it is not a problem.
    public init?(json: [UInt8]) {
        guard let problem = try? JSONDecoder().decode(Problem.self, from: Data(json)) else { return nil }
        self = problem
    }

    /// The JSON, with members sorted by name.
    package var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Encoding strings and a number cannot fail.
        guard let data = try? encoder.encode(self) else { return Array("{}".utf8) }
        return Array(data)
    }

    /// The error that this problem reports, for a call that may or may not have taken effect.
    ///
    /// - Parameters:
    ///   - operation: The operation that was requested.
    ///   - asked: The key that was requested.
    ///   - retryAfter: The pause that the server asked for.
    public func error(
        during operation: BackendError.Operation, key asked: EntryKey? = nil, retryAfter: Duration? = nil
    ) -> BackendError {
        let known = kind.flatMap { BackendError.Kind(name: $0) }
        let kind = known ?? Self.kind(ofStatus: status)
        let stated = disposition.flatMap { BackendError.Disposition(rawValue: $0) }
        // Without a disposition in the answer, the server may have carried out the change before it failed.
        let isOutcomeUnknown = stated == nil && status >= 500 && (operation == .write || operation == .delete)
        return BackendError(
            kind, operation: operation, key: asked, disposition: stated ?? (isOutcomeUnknown ? .outcomeUnknown : nil),
            message: detail.isEmpty ? "the server answered \(status) \(title)" : detail, retryAfter: retryAfter)
    }

    /// The kind for a status whose body carries none; most often such a response comes from a proxy.
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
