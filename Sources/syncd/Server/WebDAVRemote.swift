import Entitlements
import Foundation
import SyncCore
import WebDAVStorage

/// A folder of a WebDAV server, as a command line names it: `webdavs://[USER@]HOST[:PORT]/FOLDER`.
struct WebDAVRemote {
    /// The folder's address, without a user.
    let address: String
    /// Whose password is sent there, and nowhere else: `webdavs://HOST[:PORT]`.
    let origin: String
    /// The user that the address names.
    let user: String?

    /// - Parameter option: the option or argument that says so, for the error.
    init(_ text: String, option: String, _ server: ServerOptions) throws(Failure) {
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased(), let host = url.host()?.lowercased(),
            !host.isEmpty, StoreURL.isWebDAV(text), url.query() == nil, url.fragment() == nil
        else {
            throw Failure(
                .usage, "\(option): this is no folder of a WebDAV server: write webdavs://USER@HOST/FOLDER")
        }
        // Nor is the text shown: it holds the password.
        guard url.password() == nil else {
            throw Failure(
                .usage,
                "\(option): no password in an address, which others see: put it into SYNCD_WEBDAV_PASSWORD, or a file "
                    + "for --credentials")
        }
        let plain = try server.requireSafe(host, isEncrypted: scheme == "webdavs", text, option: option)
        origin = "\(scheme)://\(ServerOptions.authority(plain, url.port))"
        address = origin + url.path()
        user = url.user(percentEncoded: false)
    }

    /// Who is logged in there.
    ///
    /// - Parameter file: the file that was named for it.
    /// - Throws: where the address names a user, and there is no password of his.
    func credential(from file: String?) throws -> WebDAVBackend.Credential? {
        if file == nil, let password = environmentVariable("SYNCD_WEBDAV_PASSWORD") {
            guard let user else {
                throw Failure(
                    .usage,
                    "SYNCD_WEBDAV_PASSWORD is of nobody: name the user, \(address.replacing("://", with: "://USER@"))")
            }
            return .init(user: user, password: password)
        }
        let named = file ?? environmentVariable("SYNCD_CREDENTIALS")
        if let path = named ?? PrivateFile.stateFolder.map({ $0 + "/webdav.json" }),
            let credential = try Self.credential(for: origin, in: path, mustBeThere: named != nil)
        {
            guard user == nil || user == credential.user else {
                throw Failure(
                    .refused, "\(path): the password for \(origin) is of \(credential.user.singleLine): name that user")
            }
            return credential
        }
        guard let user else { return nil }
        throw Failure(
            .refused,
            "the password of \(user.singleLine) at \(origin) is needed: SYNCD_WEBDAV_PASSWORD, or --credentials FILE")
    }

    private struct Login: Decodable {
        var user: String
        var password: String
    }

    private static func credential(
        for origin: String, in path: String, mustBeThere: Bool
    ) throws -> WebDAVBackend.Credential? {
        guard let bytes = try PrivateFile.read(path) else {
            guard mustBeThere else { return nil }
            throw Failure(.notFound, "\(path): there is no such file with credentials")
        }
        guard let logins = try? JSONDecoder().decode([String: Login].self, from: bytes) else {
            throw Failure(
                .refused,
                "\(path): these are no users and passwords of WebDAV servers: write "
                    + "{\"webdavs://HOST\":{\"user\":\"NAME\",\"password\":\"SECRET\"}}")
        }
        return logins[origin].map { .init(user: $0.user, password: $0.password) }
    }
}

extension ServerOptions {
    /// The store in the folder of a WebDAV server that `text` names.
    ///
    /// - Parameter option: the option or argument that says so, for the error.
    func webDAVStore(_ text: String, option: String) throws -> StoreURL.ServerStore {
        let remote = try WebDAVRemote(text, option: option, self)
        let credential = try remote.credential(from: credentials)
        let transport = try transport()
        func store(creating: Bool) throws -> any KeyValueBackend {
            let backend: WebDAVBackend
            do throws(BackendError) {
                backend = try WebDAVBackend(address: remote.address, transport: transport, creating: creating) {
                    () throws(BackendError) in credential
                }
            } catch { throw Failure(.usage, "\(option): \(error.message)") }
            // Waiting for a server takes real time, whatever time it is taken to be.
            return RetryBackend(backend, policy: Self.retries, host: .system)
        }
        return StoreURL.ServerStore(backend: try store(creating: false), creating: try store(creating: true))
    }
}
