import Entitlements
import SyncProtocol
import SyncService

/// The error of a request to a store's server API.
package struct StoreAPIError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The category of an error, for programs to act on.
    package enum Kind: String, Hashable, Sendable {
        /// A setting or argument is unusable. No request was sent.
        case invalidArgument
        /// The store rejects the credentials or their permissions.
        case unauthorized
        /// The store does not know the requested object, or no longer keeps it.
        case notFound
        /// The store rejects the request for another reason.
        case rejected
        /// The store limits the rate of requests, and no retry is left.
        case rateLimited
        /// The store is unreachable or fails, and no retry is left.
        case unavailable
        /// The response is not of the documented form.
        case malformed
        /// The response exceeds the size limit.
        case tooLarge
        /// The pages of a list do not end.
        case endless
        /// The task was cancelled.
        case cancelled
    }

    /// The category of the error.
    package let kind: Kind
    /// The status of the last response; `nil` if there was none.
    package let status: Int?
    /// A one-line description that says what to do.
    package let message: String

    init(_ kind: Kind, status: Int? = nil, _ message: String) {
        (self.kind, self.status, self.message) = (kind, status, message)
    }

    /// Kind and message.
    package var description: String { "\(kind.rawValue): \(message)" }
}

extension StoreAPIError: PlayLookupError {
    /// True for the kind ``Kind/notFound``.
    package var isNotFound: Bool { kind == .notFound }
    /// True for the kind ``Kind/rejected``.
    package var isRejected: Bool { kind == .rejected }
    /// True for the kinds ``Kind/unavailable``, ``Kind/rateLimited`` and ``Kind/cancelled``.
    package var isTransient: Bool { kind == .unavailable || kind == .rateLimited || kind == .cancelled }
}

extension StoreAPIError {
    init(_ error: TransportError, api: String, maximumByteCount: Int) {
        switch error.kind {
        case .tooLarge:
            self.init(.tooLarge, "\(api) answered with more than \(maximumByteCount) bytes")
        case .cancelled:
            self.init(.cancelled, "the request to \(api) was cancelled")
        case .malformed:
            self.init(.malformed, "\(api) did not answer in HTTP: \(error.message)")
        case .untrusted:
            self.init(.unavailable, "\(api) did not prove its identity: \(error.message)")
        case .unreachable, .interrupted, .timedOut, .other:
            self.init(.unavailable, "\(api) did not answer: \(error.message)")
        }
    }
}

/// The explanation in an error response of Apple, of Google's APIs or of an OAuth 2.0 server.
struct StoreAPIProblem: Sendable, CustomStringConvertible {
    /// The codes with which Apple asks for a retry, although the status is 404: the account, the app or the original
    /// transaction is not found now.
    private static let passingCodes: Set<Int64> = [4_040_002, 4_040_004, 4_040_006]
    private static let maximumLength = 300

    /// The code of Apple's API; `nil` if there is none.
    let code: Int64?
    /// The explanation as one line of limited length; `nil` if there is none.
    let text: String?

    /// Reads the explanation in `body`, which may be of any form.
    init(body: [UInt8]) {
        let members = try? JSONReader(parsing: body).object()
        func text(_ name: String) -> String? { try? members?[name]?.string() }
        code = try? members?["errorCode"]?.integer()
        let message =
            text("errorMessage") ?? (try? members?["error"]?.object()["message"]?.string())
            ?? text("error_description")
        let parts = [code.map { "error \($0)" }, text("error"), message].compactMap(\.self)
        self.text = parts.isEmpty ? nil : Self.line(parts.joined(separator: ": "))
    }

    /// True if the same request may succeed later.
    var isPassing: Bool { code.map(Self.passingCodes.contains) ?? false }

    /// The explanation as a clause that follows a status; empty if there is none.
    var description: String { text.map { " (\($0))" } ?? "" }

    private static func line(_ text: String) -> String {
        let printable = text.unicodeScalars.map { scalar in
            scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value) || (0x2028...0x2029).contains(scalar.value)
                ? " " : String(scalar)
        }
        return String(printable.joined().prefix(maximumLength))
    }
}
