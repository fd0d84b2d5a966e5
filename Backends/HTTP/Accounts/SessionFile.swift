public import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif
#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#elseif canImport(Darwin)
import Darwin
#endif

/// The session of one local store on one server, in a file that only its owner can access (mode 0600).
///
/// Several processes may use the file, for example an app and its extension, and several objects of one process. The
/// file is replaced atomically and durably. The lock file `FILE.lock` beside it is locked only while a session is
/// refreshed, saved or deleted. A missing folder is created with mode 0700.
///
/// ```swift
/// let sessions = SessionFile("\(folder)/session.json", local: folder, server: client.server)
/// let tokens = SessionTokens(client, store: sessions)
/// ```
///
/// Errors name the file and the remedy:
/// - `damaged`: The file does not contain a session.
/// - `permissionDenied`: Other users can access the file, or this user cannot. If the session is that of another store
///   or server, for example because the server has a new address, the cause is an ``AccountError`` of kind
///   `sessionOver`: log in again.
/// - `full`: No space is left. The old session stays.
/// - `busy`: Another process has held the lock for a minute.
/// - `cancelled`: The task was cancelled while it waited for the lock.
/// - `unavailable`: Any other failure of the file system.
public struct SessionFile: SessionStore {
    /// The path of the file.
    public let path: String
    /// The local store that the session belongs to, for example its folder.
    public let local: String
    /// The address of the server that the session belongs to.
    public let server: String
    private let adviceForOtherStores: String?
    private let host: HostServices

    /// The files whose lock the current task holds.
    @TaskLocal private static var lockedPaths: Set<String> = []

    /// Creates a store for the session in the file at `path`. Accesses no file.
    ///
    /// - Parameters:
    ///   - path: the path of the file.
    ///   - local: the local store that the session belongs to. The session of another one is rejected.
    ///   - server: the address of the server that the session belongs to. The session of another one is rejected.
    ///   - host: the timer for waiting.
    public init(_ path: String, local: String, server: String, host: HostServices = .system) {
        self.init(path, local: local, server: server, adviceForOtherStores: nil, host: host)
    }

    /// - Parameter adviceForOtherStores: The remedy if the session is that of another store, for a program whose log-in
    ///   must not replace it; `nil` if a log-in replaces it.
    package init(
        _ path: String, local: String, server: String, adviceForOtherStores: String?, host: HostServices = .system
    ) {
        (self.path, self.local, self.server) = (path, local, server)
        (self.adviceForOtherStores, self.host) = (adviceForOtherStores, host)
    }

    private var file: PrivateFile { PrivateFile(path) }

    /// The session in the file; `nil` without a file.
    public func load() async throws(BackendError) -> KeptSession? {
        guard let bytes = try file.read() else { return nil }
        guard let document = SessionDocument(json: bytes), let itsLocal = document.local,
            let itsServer = document.server
        else {
            throw BackendError(
                .damaged, operation: .read, message: "\(path): not a session file: remove it and log in again")
        }
        let owner = "\(path): the session belongs to \(itsLocal) at \(itsServer)"
        if let adviceForOtherStores, itsLocal != local {
            throw BackendError(.permissionDenied, operation: .read, message: "\(owner); \(adviceForOtherStores)")
        }
        guard itsLocal == local, itsServer == server else {
            throw AccountError(.sessionOver, "\(owner), not to \(local) at \(server); log in again").backendError
                .during(.read)
        }
        return document.session
    }

    /// Replaces the file durably, whatever it contains. Waits for the lock unless the caller holds it.
    public func save(_ session: KeptSession) async throws(BackendError) {
        let bytes: [UInt8]
        do {
            bytes = try SessionDocument(session, local: local, server: server).encoded(.prettyPrinted)
        } catch {
            throw BackendError(
                .other, operation: .write, message: "\(path): the session cannot be encoded", cause: error)
        }
        try await whileLocked { () throws(BackendError) in try file.replace(with: bytes) }
    }

    /// Deletes the file durably. Waits for the lock unless the caller holds it.
    public func delete() async throws(BackendError) {
        try await whileLocked { () throws(BackendError) in try file.remove() }
    }

    /// Runs `body` while no other user of the file, in this process or another, runs its own.
    ///
    /// Waits for the lock at most one minute. Calls must not be nested.
    public func exclusively<Outcome: Sendable>(
        _ body: @Sendable () async throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Outcome {
        let lock = try await lock()
        defer { close(lock) }
        let outcome = await Self.$lockedPaths.withValue(Self.lockedPaths.union([path])) {
            () async -> Result<Outcome, BackendError> in
            do throws(BackendError) { return .success(try await body()) } catch { return .failure(error) }
        }
        return try outcome.get()
    }

    private func whileLocked(_ body: @Sendable () throws(BackendError) -> Void) async throws(BackendError) {
        if Self.lockedPaths.contains(path) { return try body() }
        try await exclusively { () async throws(BackendError) in try body() }
    }

    /// Waits for the lock. Returns a descriptor whose closing releases it.
    private func lock() async throws(BackendError) -> Int32 {
        let elapsed = host.stopwatch()
        while true {
            if let lock = try file.tryLock() { return lock }
            guard elapsed() < .seconds(60) else {
                throw BackendError(
                    .busy, operation: .open,
                    message: "\(path): another process has held the lock for a minute; try again")
            }
            do { try await host.sleep(for: .milliseconds(10)) } catch { throw .cancelled(.open, cause: error) }
        }
    }
}
