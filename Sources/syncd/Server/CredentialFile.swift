import Checksums
import Foundation
import HTTPStorage
import SyncCore

/// The session of one local store on one server, in a file that only its owner can read.
///
/// The file is replaced atomically and durably. A process holds the lock file `FILE.lock` beside it only while it gets
/// a new token.
struct CredentialFile: SessionStore {
    let path: String
    /// The local store and the server. A file that belongs to another pair is rejected.
    let local: String
    let server: String

    private struct Body: Codable {
        var accessToken: String
        var account: String
        var expiresIn: Int64
        var incarnation: String
        var local: String
        var received: Int64
        var refreshToken: String
        var server: String
    }

    /// The default file of a pair, in the state folder (XDG base directories).
    static func usualPath(local: String, server: String) throws(Failure) -> String {
        guard let folder = PrivateFile.stateFolder else {
            throw Failure(.usage, "--credentials is required, because HOME is not set")
        }
        let readable = server.map { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == ".") ? $0 : "-" }
        let digest = String(XXHash64.digest(of: Array("\(local)\n\(server)".utf8)), radix: 16)
        return "\(folder)/\(String(readable).prefix(80))-\(digest).json"
    }

    func load() async throws(BackendError) -> KeptSession? {
        guard let bytes = try PrivateFile.read(path) else { return nil }
        return try session(bytes)
    }

    private func session(_ bytes: Data) throws(BackendError) -> KeptSession {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        guard let body = try? decoder.decode(Body.self, from: bytes) else {
            throw BackendError(
                .damaged, operation: .read,
                message: "\(path): not a session file of syncd: remove it and log in again")
        }
        guard body.server == server, body.local == local else {
            throw BackendError(
                .permissionDenied, operation: .read,
                message: "\(path): the session of \(body.local) at \(body.server); pass another --credentials")
        }
        return KeptSession(
            ServerSession(
                account: body.account, incarnation: body.incarnation, accessToken: body.accessToken,
                lifetime: .seconds(body.expiresIn), refreshToken: body.refreshToken), received: body.received)
    }

    func save(_ kept: KeptSession) async throws(BackendError) {
        let body = Body(
            accessToken: kept.session.accessToken, account: kept.session.account,
            expiresIn: kept.session.lifetime.components.seconds, incarnation: kept.session.incarnation, local: local,
            received: kept.received, refreshToken: kept.session.refreshToken, server: server)
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes, .prettyPrinted]
        let bytes: Data
        do { bytes = try encoder.encode(body) } catch {
            throw BackendError(
                .other, operation: .write, message: "\(path): the session cannot be encoded", cause: error)
        }
        try write(bytes, to: path + ".new")
        guard rename(path + ".new", path) == 0 else { throw error("cannot be replaced", errno) }
        try synchronizeFolder()
    }

    func delete() async throws(BackendError) {
        guard unlink(path) == 0 || errno == ENOENT else { throw error("cannot be removed", errno) }
        try synchronizeFolder()
    }

    private func write(_ bytes: Data, to name: String) throws(BackendError) {
        // A file left by a crash has no owner: the writer holds the lock.
        guard unlink(name) == 0 || errno == ENOENT else { throw error("cannot be replaced", errno) }
        let file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw error("cannot be written", errno) }
        defer { close(file) }
        let written = bytes.withUnsafeBytes { buffer in
            var rest = buffer[...]
            while !rest.isEmpty {
                let count = Foundation.write(file, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }
        guard written, fsync(file) == 0 else { throw error("cannot be written", errno) }
    }

    private var folder: String {
        let slash = path.lastIndex(of: "/")
        return slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    }

    private func synchronizeFolder() throws(BackendError) {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw error("the folder cannot be opened", errno) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw error("the folder cannot be written", errno) }
    }

    func exclusively<Outcome: Sendable>(
        _ body: @Sendable () async throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Outcome {
        do {
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw BackendError(
                .permissionDenied, operation: .open, message: "\(folder): cannot be created", cause: error)
        }
        let lock = open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lock >= 0 else { throw error("the lock cannot be opened", errno) }
        // Closing releases the lock. The file stays: if it were removed, two processes could lock two files of one
        // name.
        defer { close(lock) }
        try await take(lock)
        return try await body()
    }

    /// Takes the lock, waiting at most a minute for a refresh by another process.
    private func take(_ lock: Int32) async throws(BackendError) {
        let host = HostServices.system
        let end = ContinuousClock.now + .seconds(60)
        while flock(lock, LOCK_EX | LOCK_NB) != 0 {
            guard errno == EWOULDBLOCK || errno == EINTR else { throw error("cannot be locked", errno) }
            guard ContinuousClock.now < end else {
                throw BackendError(
                    .busy, operation: .open,
                    message: "\(path): another process has held the lock for a minute; try again")
            }
            do { try await host.sleep(for: .milliseconds(10)) } catch {
                throw BackendError(.cancelled, operation: .open, message: "the task was cancelled", cause: error)
            }
        }
    }

    private func error(_ what: String, _ code: Int32) -> BackendError {
        let kind: BackendError.Kind =
            switch code {
            case EACCES, EPERM, ELOOP, EROFS: .permissionDenied
            case ENOSPC, EDQUOT: .full
            default: .unavailable
            }
        return BackendError(
            kind, disposition: .permanent, message: "\(path): \(what): \(String(cString: strerror(code)))")
    }
}
