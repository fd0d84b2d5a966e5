import Foundation
import HTTPTypes
import SyncCore
import SyncProtocol

extension WebDAVBackend {
    /// Sends a read-only request, and repeats it if the connection broke.
    func ask(
        _ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields, body: [UInt8] = [],
        for operation: BackendError.Operation, key: EntryKey?, _ attempts: inout Attempts
    ) async throws(BackendError) -> TransportAnswer {
        while true {
            let failure: BackendError
            do throws(BackendError) {
                return try await exchange(
                    method, path, fields, body: body, for: operation, key: key, timeout: attempts.remaining)
            } catch { failure = error }
            guard (failure.cause as? TransportError)?.kind == .interrupted,
                try await attempts.begin(operation, key)
            else {
                // A read-only request has no effect, even if it serves a write.
                throw failure.disposition == .outcomeUnknown ? failure.withoutEffect : failure
            }
        }
    }

    /// Sends a request.
    func exchange(
        _ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields, body: [UInt8] = [],
        for operation: BackendError.Operation, key: EntryKey?, timeout: Duration? = nil
    ) async throws(BackendError) -> TransportAnswer {
        try BackendError.throwIfCancelled(operation, key: key)
        var request = address.request(method, path, fields)
        do throws(BackendError) {
            if let credential = try await credentials() {
                request.headerFields[.authorization] = try Self.authorization(of: credential)
            }
        } catch {
            throw error.during(operation, key: key)
        }
        do throws(TransportError) {
            let most = (capabilities.maximumValueByteCount ?? 0) + StoredFile.overhead
            return try await transport.send(
                request, body: body, timeout: timeout ?? self.timeout, maximumByteCount: max(most, 16 << 20))
        } catch {
            throw BackendError(error, operation: operation, key: key, label: label)
        }
    }

    private static func authorization(of credential: Credential) throws(BackendError) -> String {
        let (user, password) = (credential.user, credential.password)
        // RFC 7617, section 2.
        guard !user.utf8.contains(UInt8(ascii: ":")), (user + password).utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F })
        else {
            throw BackendError(
                .permissionDenied,
                message:
                    "a user name must not contain a colon, and neither it nor a password may contain control characters"
            )
        }
        return "Basic " + Data("\(user):\(password)".utf8).base64EncodedString()
    }

    /// Creates the error of an unsuccessful answer.
    func failure(
        _ answer: TransportAnswer, _ operation: BackendError.Operation, _ key: EntryKey?
    ) -> BackendError {
        let response = answer.response
        let code = response.status.code
        let retryAfter = RetryAfter.pause(of: response)
        func error(_ kind: BackendError.Kind, _ message: String) -> BackendError {
            BackendError(
                kind, operation: operation, key: key, message: "\(label): \(message)", retryAfter: retryAfter)
        }
        switch code {
        case 200..<300: return foreign(answer, operation, key)
        case 300..<400:
            let place = response.headerFields[.location].map(Self.shown) ?? "another place"
            return error(.notAStore, "the server redirects to \(place) (\(code)); use that address if you trust it")
        case 400, 405:
            return error(.notAStore, "the server answered \(code); check that WebDAV is enabled at this address")
        case 401:
            let speaksBasic =
                response.headerFields[values: .wwwAuthenticate].contains { $0.lowercased().contains("basic") }
            return error(
                .permissionDenied,
                speaksBasic
                    ? "the server refused this user name and password (401)"
                    : "the server requires an authentication other than Basic, which is not supported (401)")
        case 403:
            return error(.permissionDenied, "the server denied permission (403); check the permissions on the server")
        case 404, 409: return error(.missing, "the folder does not exist or was removed (\(code))")
        case 423: return error(.busy, "the file is locked on the server (423)")
        default:
            return Problem(response.status, "\(label): the server answered \(code)")
                .error(during: operation, key: key, retryAfter: retryAfter)
        }
    }

    /// Creates the error of a successful status that WebDAV does not define for the request, which may have taken
    /// effect.
    func foreign(
        _ answer: TransportAnswer, _ operation: BackendError.Operation, _ key: EntryKey?
    ) -> BackendError {
        BackendError(
            .notAStore, operation: operation, key: key,
            disposition: operation == .write || operation == .delete ? .outcomeUnknown : .permanent,
            message:
                "\(label): the answer (\(answer.response.status.code)) is not a WebDAV answer; check the address"
        )
    }

    /// An address from the server, limited to one line and without secrets.
    private static func shown(_ location: String) -> String {
        let visible = location.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } && location.utf8.count <= 200
        let plain = location.prefix { $0 != "?" && $0 != "#" }
        return visible && !plain.contains("@") ? String(plain) : "another place"
    }
}

extension HTTPRequest.Method {
    // Both are valid method names.
    static var mkcol: Self { Self("MKCOL") ?? .put }
    static var propfind: Self { Self("PROPFIND") ?? .get }
}

extension BackendError {
    fileprivate var withoutEffect: BackendError {
        BackendError(
            kind, operation: operation, key: key, disposition: .transient, message: message, cause: cause,
            retryAfter: retryAfter)
    }
}
