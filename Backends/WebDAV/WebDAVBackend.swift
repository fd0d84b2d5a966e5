import HTTPTypes
public import SyncCore
public import SyncProtocol
import Synchronization

/// A folder on a WebDAV server (RFC 4918): a NAS, Nextcloud, Apache's mod_dav. For devices of one person that share a
/// folder and have no server of ours.
///
/// - **Without compare-and-swap**, whatever the server says: with eight writers at once under one strong entity tag,
///   Apache lets more than one through. So each device writes only its own entry of a ledger, and reads all.
/// - **Whole or not at all.** A write is one `PUT`, which Apache puts in place in one step. (A `MOVE` over a file is
///   not: it removes the file first, and whoever reads in between finds nothing.) Every file has a checksum, so half of
///   one, or two that the server mixed, is an error and never a value.
/// - **Honest.** A 404 is an absence only where the folder is there and is listed as WebDAV does. Apache answers 403,
///   or breaks off, to whoever reads a file at the moment in which it is replaced; that is asked again, a few times.
/// - Entity tags only spare reading what is known: and only those that are strong, and three seconds older than the
///   file, since servers make them of times.
///
/// ```swift
/// let nas = try WebDAVBackend(address: "webdavs://nas.local/owls", transport: transport) {
///     WebDAVBackend.Credential(user: "alice", password: password)
/// }
/// ```
public final class WebDAVBackend: KeyValueBackend {
    /// Where user name and password come from, asked before each request; `nil` for none.
    public typealias Credentials = @Sendable () async throws(BackendError) -> Credential?

    /// What it honours: no conditional writes, no sequence of changes.
    public let capabilities: Capabilities
    /// The folder's address, the same for every spelling of it: `webdavs://nas.local/owls/`.
    public let label: String

    let address: FolderAddress
    let transport: any HTTPTransport
    let timeout: Duration
    let creating: Bool
    let host: HostServices
    let credentials: Credentials
    /// By the path of a file: a tag that will not come again for another content, and the version that it stands for.
    let known = Mutex<[String: (tag: String, version: EntryVersion)]>([:])

    /// The store in the folder at `address`.
    ///
    /// - Parameters:
    ///   - address: `webdavs://HOST[:PORT]/FOLDER` or `https://…`, percent-encoded; plain `webdav` or `http` only where
    ///     the caller knows what he does.
    ///   - transport: what carries the requests.
    ///   - timeout: how long a request may take, and reading a file with all that is repeated of it.
    ///   - creating: whether the folder is made when it is missing. Otherwise a missing one is an error, and no empty
    ///     store.
    ///   - maximumValueByteCount: larger values are refused, and larger answers not read.
    ///   - host: randomness for versions, and the timer of the pauses before something is read again.
    ///   - credentials: where user name and password come from.
    /// - Throws: `BackendError.Kind.notAStore` where `address` is no such address, or has a user name, a query or a
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

    /// Reads one key: one `GET`, and where it finds nothing a look whether the folder is there.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        let path = path(of: FileName.parts(of: key))
        let tag = known.withLock { known in known[path].flatMap { $0.version == knownVersion ? $0.tag : nil } }
        switch try await file(at: path, key, unless: tag, for: .read) {
        case .entry(let entry): return Answer(entry.version == knownVersion ? .unchanged : .found(entry))
        case .unchanged: return Answer(.unchanged)
        case .missing:
            // Only in a folder that is there can something be missing.
            try await checkFolder(.read, key)
            return Answer(.absent)
        case .unreadable(let error, _): throw error
        }
    }

    /// Writes one key: one `PUT`. Only without a precondition, see ``WebDAVBackend``.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try refuse(precondition, .write, key)
        if let maximum = capabilities.maximumValueByteCount, value.count > maximum {
            throw BackendError(
                .tooLarge, operation: .write, key: key,
                message: "a value has at most \(maximum) bytes here, this one has \(value.count)")
        }
        var generator = host.generator
        let version = EntryVersion.random(using: &generator)
        let bytes = StoredFile.bytes(of: value, version: version, key: key)
        let parts = FileName.parts(of: key)
        var answer = try await put(bytes, path(of: parts), key)
        if [404, 409].contains(answer.response.status.code) {
            // A collection on the way is missing, or the whole folder.
            try await makeCollections(on: parts, key)
            answer = try await put(bytes, path(of: parts), key)
        }
        switch answer.response.status.code {
        case 201, 204: return Answer(.written(version))
        // Allowed, but what a server says too that has not written anything.
        case 200:
            guard case .entry(let entry) = try await file(at: path(of: parts), key, unless: nil, for: .write),
                entry.version == version
            else { throw foreign(answer, .write, key) }
            return Answer(.written(version))
        default: throw failure(answer, .write, key)
        }
    }

    /// Deletes one key: one `DELETE`, and where it finds nothing a look whether the folder is there. Only without a
    /// precondition.
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
        // 207 too: something of it could not be deleted, and there is only one thing.
        default: throw failure(answer, .delete, key)
        }
        known.withLock { $0[path] = nil }
        return Answer(.deleted)
    }

    /// Lists keys: one `PROPFIND`, one more for each name that is too long for a file, and a `GET` for each file of the
    /// page whose version is not known.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        precondition(limit >= 1, "a page holds 1 key or more")
        var found: [ListedFile] = []
        var folders: [[String]] = [[]]
        while let folder = folders.popLast() {
            for member in try await members(of: folder) {
                let parts = folder + [member.name]
                if member.isCollection {
                    // Others' folders are others' affair.
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
            // A file that went away meanwhile is none.
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
        // The others go on; reading this one tells what is wrong with it.
        case .unreadable(_, let version): return version
        }
    }

    private func refuse(_ precondition: Precondition, _ operation: BackendError.Operation, _ key: EntryKey)
        throws(BackendError)
    {
        guard precondition == .any else {
            throw BackendError(
                .unsupported, operation: operation, key: key,
                message: "\(label) cannot write conditionally: a WebDAV server checks a tag and writes in two steps")
        }
    }

    private func put(_ file: [UInt8], _ path: String, _ key: EntryKey) async throws(BackendError) -> TransportAnswer {
        let fields: HTTPFields = [.contentType: "application/octet-stream"]
        return try await exchange(.put, path, fields, body: file, for: .write, key: key)
    }
}

extension WebDAVBackend {
    /// User name and password, sent with each request (Basic, RFC 7617).
    public struct Credential: Hashable, Sendable, CustomStringConvertible {
        /// Who asks; without a colon.
        public var user: String
        /// What only he knows.
        public var password: String

        /// A user and a password.
        public init(user: String, password: String) { (self.user, self.password) = (user, password) }

        /// The user.
        public var description: String { user }
    }
}
