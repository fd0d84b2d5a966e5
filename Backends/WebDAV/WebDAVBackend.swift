import HTTPTypes
public import SyncCore
public import SyncProtocol
import Synchronization

/// A backend on a folder of a WebDAV server (RFC 4918), such as a NAS, Nextcloud or Apache's mod_dav, for devices that
/// share a folder and have no `syncd` server.
///
/// - **No compare-and-swap**, even if the server claims it: with eight concurrent writers under one strong entity tag,
///   Apache accepts more than one. Each device therefore writes only its own entry of a ledger and reads all entries.
/// - **Atomic writes.** A write is one `PUT`, which Apache applies atomically. (`MOVE` over a file is not atomic: it
///   removes the file first, and a concurrent read finds nothing.) Every file has a checksum, so a truncated or mixed
///   file is an error and never a value.
/// - **Verified absence.** A 404 is an absence only if the folder exists and can be listed. For a read during a
///   replacement, Apache answers 403 or truncates the answer; such reads are repeated a few times.
/// - Entity tags only avoid reading known files. A tag counts only if it is strong and was read at least three seconds
///   after the file's modification, because servers derive tags from times.
///
/// ```swift
/// let nas = try WebDAVBackend(address: "webdavs://nas.local/owls", transport: transport) {
///     WebDAVBackend.Credential(user: "alice", password: password)
/// }
/// ```
public final class WebDAVBackend: KeyValueBackend {
    /// Provides the user name and password before each request; `nil` for none.
    public typealias Credentials = @Sendable () async throws(BackendError) -> Credential?

    /// The capabilities: neither conditional writes nor a change feed.
    public let capabilities: Capabilities
    /// The normalized address of the folder, such as `webdavs://nas.local/owls/`.
    public let label: String

    let address: FolderAddress
    let transport: any HTTPTransport
    let timeout: Duration
    let creating: Bool
    let host: HostServices
    let credentials: Credentials
    /// The identifying tag and the version of each known file, by path.
    let known = Mutex<[String: (tag: String, version: EntryVersion)]>([:])

    /// Creates a backend on the folder at `address`.
    ///
    /// - Parameters:
    ///   - address: `webdavs://HOST[:PORT]/FOLDER` or `https://…`, percent-encoded; use plain `webdav` or `http` only
    ///     on loopback or a trusted network.
    ///   - transport: the transport for requests.
    ///   - timeout: the time limit of a request, and of reading a file with all repetitions.
    ///   - creating: determines whether a missing folder is created. Otherwise a missing folder is an error, not an
    ///     empty store.
    ///   - maximumValueByteCount: the maximum length of a value. Longer values are refused, and longer answers are not
    ///     read.
    ///   - host: the randomness for versions, and the timer for pauses between repeated reads.
    ///   - credentials: provides the user name and password.
    /// - Throws: `BackendError.Kind.notAStore` if `address` is not such an address, or has a user name, a query or a
    ///   fragment.
    public init(
        address: String, transport: any HTTPTransport, timeout: Duration = .seconds(30), creating: Bool = false,
        maximumValueByteCount: Int = 4 << 20, host: HostServices = .system,
        credentials: @escaping Credentials = { () throws(BackendError) in nil }
    ) throws(BackendError) {
        self.address = try FolderAddress(address)
        label = self.address.label
        (self.transport, self.timeout, self.creating, self.host) = (transport, timeout, creating, host)
        self.credentials = credentials
        capabilities = Capabilities(
            compareAndSwap: false, durability: .processDeath, changes: false, signals: .polled,
            sharedBetweenProcesses: true, maximumValueByteCount: maximumValueByteCount)
    }

    /// Reads one key with one `GET`. If it finds nothing, checks that the folder exists.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        let path = path(of: FileName.parts(of: key))
        let tag = known.withLock { known in known[path].flatMap { $0.version == knownVersion ? $0.tag : nil } }
        switch try await file(at: path, key, unless: tag, for: .read) {
        case .entry(let entry): return Answer(entry.version == knownVersion ? .unchanged : .found(entry))
        case .unchanged: return Answer(.unchanged)
        case .missing:
            // An absence requires that the folder exists.
            try await checkFolder(.read, key)
            return Answer(.absent)
        case .unreadable(let error, _): throw error
        }
    }

    /// Writes one key with one `PUT`. Preconditions are not supported, see ``WebDAVBackend``.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try refuse(precondition, .write, key)
        if let refusal = capabilities.refusal(of: value, at: key) { throw refusal }
        var generator = host.generator
        let version = EntryVersion.random(using: &generator)
        let bytes = StoredFile.bytes(of: value, version: version, key: key)
        let parts = FileName.parts(of: key)
        var answer = try await put(bytes, path(of: parts), key)
        if [404, 409].contains(answer.response.status.code) {
            // A collection of the path, or the whole folder, is missing.
            try await makeCollections(on: parts, key)
            answer = try await put(bytes, path(of: parts), key)
        }
        switch answer.response.status.code {
        case 201, 204: return Answer(.written(version))
        // A valid status, but some servers send it without writing anything.
        case 200:
            guard case .entry(let entry) = try await file(at: path(of: parts), key, unless: nil, for: .write),
                entry.version == version
            else { throw foreign(answer, .write, key) }
            return Answer(.written(version))
        default: throw failure(answer, .write, key)
        }
    }

    /// Deletes one key with one `DELETE`. If it finds nothing, checks that the folder exists. Preconditions are not
    /// supported.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try refuse(precondition, .delete, key)
        let path = path(of: FileName.parts(of: key))
        let answer = try await exchange(.delete, path, HTTPFields(), for: .delete, key: key)
        switch answer.response.status.code {
        case 204: break
        case 404, 410: try await checkFolder(.delete, key)
        case 200:
            guard case .missing = try await file(at: path, key, unless: nil, for: .delete) else {
                throw foreign(answer, .delete, key)
            }
        // Including 207, which means that the file could not be deleted.
        default: throw failure(answer, .delete, key)
        }
        known.withLock { $0[path] = nil }
        return Answer(.deleted)
    }

    /// Lists keys with one `PROPFIND`, one more for each collection of longer names, and a `GET` for each file of the
    /// page whose version is unknown.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        precondition(limit >= 1, "limit must be 1 or more, not \(limit)")
        var found: [ListedFile] = []
        var folders: [[String]] = [[]]
        while let folder = folders.popLast() {
            for member in try await members(of: folder) {
                let parts = folder + [member.name]
                if member.isCollection {
                    // Folders of other programs are ignored.
                    if FileName.isContinued(member.name), FileName.mayHoldKeys(withPrefix: prefix, in: parts) {
                        folders.append(parts)
                    }
                } else if let key = FileName.key(of: parts), key.hasPrefix(prefix), cursor.map({ $0 < key }) ?? true {
                    found.append(ListedFile(key: key, path: path(of: parts), tag: member.tag))
                }
            }
        }
        found.sort { $0.key < $1.key }
        var items: [KeyPage.Item] = []
        for file in found {
            if items.count == limit { return Answer(KeyPage(items: items, next: items.last?.key)) }
            // Skip a file that was removed in the meantime.
            if let version = try await version(of: file) { items.append(KeyPage.Item(key: file.key, version: version)) }
        }
        return Answer(KeyPage(items: items, next: nil))
    }

    private struct ListedFile {
        var key: EntryKey
        var path: String
        var tag: String?
    }

    private func version(of file: ListedFile) async throws(BackendError) -> EntryVersion? {
        if let tag = file.tag, let known = known.withLock({ $0[file.path] }), known.tag == tag { return known.version }
        switch try await self.file(at: file.path, file.key, unless: nil, for: .list) {
        case .entry(let entry): return entry.version
        case .unchanged, .missing: return nil
        // The listing continues. Reading this entry reports the error.
        case .unreadable(_, let version): return version
        }
    }

    private func refuse(_ precondition: Precondition, _ operation: BackendError.Operation, _ key: EntryKey)
        throws(BackendError)
    {
        guard precondition == .any else {
            throw BackendError(
                .unsupported, operation: operation, key: key,
                message:
                    "\(label) cannot write conditionally: WebDAV servers check a tag and write in separate steps"
            )
        }
    }

    private func put(_ file: [UInt8], _ path: String, _ key: EntryKey) async throws(BackendError) -> TransportAnswer {
        let fields: HTTPFields = [.contentType: "application/octet-stream"]
        return try await exchange(.put, path, fields, body: file, for: .write, key: key)
    }
}

extension WebDAVBackend {
    /// A user name and password, sent with each request (Basic authentication, RFC 7617).
    public struct Credential: Hashable, Sendable, CustomStringConvertible {
        /// The user name, without a colon.
        public var user: String
        /// The password.
        public var password: String

        /// Creates a credential.
        public init(user: String, password: String) { (self.user, self.password) = (user, password) }

        /// The user name, without the password.
        public var description: String { user }
    }
}
