import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import WebDAVStorage

/// The URL of a folder on a WebDAV server: `webdavs://[USER@]HOST[:PORT]/FOLDER`.
struct WebDAVRemote {
    /// The folder's URL, without a user.
    let address: String
    /// The server, which alone receives the password: `webdavs://HOST[:PORT]`.
    let origin: String
    /// The user in the URL.
    let user: String?

    /// - Parameter option: the name of the option or argument, for the error.
    init(_ text: String, option: String, _ server: ServerOptions) throws(Failure) {
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased(), let host = url.host()?.lowercased(),
            !host.isEmpty, StoreURL.isWebDAV(text), url.query() == nil, url.fragment() == nil
        else {
            throw Failure(
                .usage, "\(option) must be webdavs://USER@HOST/FOLDER")
        }
        // The message does not quote the text, which holds the password.
        guard url.password() == nil else {
            throw Failure(
                .usage,
                "\(option): the URL must not have a password, because other users can see it: set "
                    + "SYNCD_WEBDAV_PASSWORD, or use a file with --credentials")
        }
        let plain = try server.requireSafe(host, isEncrypted: scheme == "webdavs", text, option: option)
        origin = "\(scheme)://\(ServerOptions.authority(plain, url.port))"
        address = origin + url.path()
        user = url.user(percentEncoded: false)
    }

    /// The user and password for the server; `nil` for anonymous access.
    ///
    /// - Parameter file: the value of `--credentials`.
    /// - Throws: ``Failure`` if the URL names a user without a known password.
    func credential(from file: String?) throws -> WebDAVBackend.Credential? {
        if file == nil, let password = environmentVariable("SYNCD_WEBDAV_PASSWORD") {
            guard let user else {
                throw Failure(
                    .usage,
                    "SYNCD_WEBDAV_PASSWORD needs a user: write \(address.replacing("://", with: "://USER@"))",
                    of: ["remote"])
            }
            return .init(user: user, password: password)
        }
        let named = file ?? environmentVariable("SYNCD_CREDENTIALS")
        if let path = named ?? ServerOptions.stateFolder.map({ $0 + "/webdav.json" }),
            let credential = try Self.credential(for: origin, in: path, mustBeThere: named != nil)
        {
            guard user == nil || user == credential.user else {
                throw Failure(
                    .refused,
                    "\(path): the password for \(origin) belongs to \(credential.user.singleLine): write that user"
                )
            }
            return credential
        }
        guard let user else { return nil }
        throw Failure(
            .refused,
            "the password of \(user.singleLine) at \(origin) is required: set SYNCD_WEBDAV_PASSWORD or pass "
                + "--credentials")
    }

    private struct Login: Decodable {
        var user: String
        var password: String
    }

    private static func credential(
        for origin: String, in path: String, mustBeThere: Bool
    ) throws -> WebDAVBackend.Credential? {
        guard let bytes = try PrivateFile(path).read() else {
            guard mustBeThere else { return nil }
            throw Failure(.notFound, "\(path): no such file")
        }
        guard let logins = try? JSONDecoder().decode([String: Login].self, from: Data(bytes)) else {
            throw Failure(
                .refused,
                "\(path) must hold users and passwords of WebDAV servers: "
                    + "{\"webdavs://HOST\":{\"user\":\"NAME\",\"password\":\"SECRET\"}}")
        }
        return logins[origin].map { .init(user: $0.user, password: $0.password) }
    }
}

extension ServerOptions {
    /// The store in the folder of the WebDAV server at `text`.
    ///
    /// - Parameter option: the name of the option or argument, for the error.
    func webDAVStore(_ text: String, option: String) throws -> StoreURL.ServerStore {
        let remote = try WebDAVRemote(text, option: option, self)
        let credential = try reading("credentials") { try remote.credential(from: credentials) }
        let transport = try transport()
        func store(creating: Bool) throws -> any KeyValueBackend {
            let backend: WebDAVBackend
            do throws(BackendError) {
                backend = try WebDAVBackend(address: remote.address, transport: transport, creating: creating) {
                    () throws(BackendError) in credential
                }
            } catch { throw Failure(.usage, "\(option): \(error.message)") }
            // Waiting for a server takes real time, whatever --at says.
            return RetryBackend(backend, policy: Self.retries, host: .system)
        }
        return StoreURL.ServerStore(backend: try store(creating: false), creating: try store(creating: true))
    }
}
