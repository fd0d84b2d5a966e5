import Foundation
import HTTPTypes
public import SyncCore
public import SyncProtocol
import Synchronization

/// A folder on a WebDAV server (RFC 4918): a NAS, Nextcloud, Apache's mod_dav. For devices of one person that share a
/// folder and have no server of ours.
///
/// Declared **without compare-and-swap**, whatever the server says: with eight writers at once under one strong entity
/// tag, Apache lets more than one through. So each device writes only its own entry of a ledger, and reads all.
///
/// Versions are digests of the value. A server's entity tags, which may be made of times, only spare reading what is
/// known.
///
/// ```swift
/// let nas = try WebDAVBackend(address: "https://nas.local/owls/", transport: transport) { ("alice", password) }
/// ```
public final class WebDAVBackend: KeyValueBackend {
    /// User name and password, sent with each request (RFC 7617); `nil` for none.
    public typealias Credentials = @Sendable () async throws(BackendError) -> (user: String, password: String)?

    /// What it honours.
    public let capabilities: Capabilities
    /// The folder's address.
    public let label: String

    private let scheme: String
    private let authority: String
    /// The folder's path, percent-encoded, with a slash at both ends.
    private let base: String
    private let transport: any HTTPTransport
    private let timeout: Duration
    private let creating: Bool
    private let credentials: Credentials
    /// What is known of files: a strong entity tag and the version that it stands for.
    private let known = Mutex<[String: (tag: String, version: EntryVersion)]>([:])

    /// The store in the folder at `address`.
    ///
    /// - Parameters:
    ///   - address: `https://HOST[:PORT]/FOLDER/`, percent-encoded; plain `http` only where the caller knows what he
    ///     does.
    ///   - transport: what carries the requests.
    ///   - timeout: how long a request may take.
    ///   - creating: whether the folder is made when it is missing. Otherwise a missing one is an error, and no empty
    ///     store.
    ///   - maximumValueByteCount: larger values are refused, and larger answers not read.
    ///   - credentials: where user name and password come from.
    /// - Throws: `BackendError.Kind.notAStore` where `address` is no such address, or has a user name, a query or a
    ///   fragment.
    public init(
        address: String, transport: any HTTPTransport, timeout: Duration = .seconds(30), creating: Bool = false,
        maximumValueByteCount: Int = 4 << 20,
        credentials: @escaping Credentials = { () throws(BackendError) in nil }
    ) throws(BackendError) {
        let parts = address.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
        guard parts.count >= 3, ["http:", "https:"].contains(parts[0]), parts[1].isEmpty, !parts[2].isEmpty,
            !address.contains(where: { "@?#\\ ".contains($0) }), address.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else {
            throw BackendError(
                .notAStore, operation: .open,
                message: "\"\(address)\" is no folder of a WebDAV server: write https://HOST/FOLDER/")
        }
        (scheme, authority, label) = (String(parts[0].dropLast()), parts[2], address)
        let path = parts.count == 4 ? parts[3] : ""
        base = "/" + path + (path.isEmpty || path.hasSuffix("/") ? "" : "/")
        (self.transport, self.timeout, self.creating) = (transport, timeout, creating)
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
        var fields = HTTPFields()
        if let knownVersion, let file = known.withLock({ $0[path] }), file.version == knownVersion {
            fields[.ifNoneMatch] = file.tag
        }
        let answer = try await exchange(.get, path, fields, for: .read, key: key)
        switch answer.response.status.code {
        case 200:
            let entry = try entry(of: answer, path, key)
            return Answer(entry.version == knownVersion ? .unchanged : .found(entry))
        case 304 where fields[.ifNoneMatch] != nil: return Answer(.unchanged)
        case 404, 409:
            // Only in a folder that is there can something be missing.
            try await checkFolder(.read, key)
            return Answer(.absent)
        default: throw failure(answer, .read, key)
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
        let parts = FileName.parts(of: key)
        let path = path(of: parts)
        var answer = try await put(value, path, key)
        if [404, 409].contains(answer.response.status.code) {
            // A collection on the way is missing, or the whole folder.
            try await makeCollections(parts, key)
            answer = try await put(value, path, key)
        }
        guard (200...204).contains(answer.response.status.code) else { throw failure(answer, .write, key) }
        known.withLock { $0[path] = nil }
        return Answer(.written(StoredValue.version(of: value)))
    }

    /// Deletes one key: one `DELETE`. Only without a precondition.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try refuse(precondition, .delete, key)
        let path = path(of: FileName.parts(of: key))
        let answer = try await exchange(.delete, path, HTTPFields(), for: .delete, key: key)
        switch answer.response.status.code {
        case 200...204: break
        case 404, 409: try await checkFolder(.delete, key)
        default: throw failure(answer, .delete, key)
        }
        known.withLock { $0[path] = nil }
        return Answer(.deleted)
    }

    /// Lists keys: one `PROPFIND`, one more for each name that is too long for a file, and a `GET` for each file whose
    /// version is not known.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        precondition(limit >= 1, "a page holds 1 key or more")
        var found: [(key: EntryKey, path: String, tag: String?)] = []
        var folders: [[String]] = [[]]
        while let folder = folders.popLast() {
            for member in try await members(of: folder) {
                let parts = folder + [member.name]
                if member.isCollection {
                    // Others' folders are others' affair.
                    if member.name.hasSuffix("+") { folders.append(parts) }
                } else if let key = FileName.key(of: parts), key.hasPrefix(prefix), cursor.map({ $0 < key }) ?? true {
                    found.append((key, path(of: parts), member.tag))
                }
            }
        }
        found.sort { $0.key < $1.key }
        var items: [KeyPage.Item] = []
        var last: EntryKey?
        for (index, file) in found.enumerated() {
            guard items.count < limit else { return Answer(KeyPage(items: items, next: last ?? found[index].key)) }
            // A file that went away meanwhile is none.
            if let version = try await version(of: file) {
                items.append(KeyPage.Item(key: file.key, version: version))
            }
            last = file.key
        }
        return Answer(KeyPage(items: items, next: nil))
    }

    private func version(of file: (key: EntryKey, path: String, tag: String?)) async throws(BackendError)
        -> EntryVersion?
    {
        if let tag = file.tag, let known = known.withLock({ $0[file.path] }), known.tag == tag { return known.version }
        let answer = try await exchange(.get, file.path, HTTPFields(), for: .list, key: file.key)
        switch answer.response.status.code {
        case 200: return try entry(of: answer, file.path, file.key).version
        case 404: return nil
        default: throw failure(answer, .list, file.key)
        }
    }
}

extension WebDAVBackend {
    private func path(of parts: [String]) -> String {
        // "=" and "+" may stand in a path as they are (RFC 3986, section 3.3).
        base + parts.joined(separator: "/")
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

    private func entry(of answer: TransportAnswer, _ path: String, _ key: EntryKey) throws(BackendError) -> Entry {
        guard let entry = StoredValue.entry(answer.body) else {
            throw BackendError(
                .damaged, operation: .read, key: key,
                message: "\(label): the file is cut, or none of ours; restore it, or delete it")
        }
        let tag = answer.response.headerFields[.eTag]
        known.withLock { known in
            // A weak tag may stand for two contents: Apache answers one for a second after a write.
            known[path] = tag.flatMap { $0.hasPrefix("W/") ? nil : ($0, entry.version) }
        }
        return entry
    }

    private func put(_ value: [UInt8], _ path: String, _ key: EntryKey) async throws(BackendError) -> TransportAnswer {
        let fields: HTTPFields = [.contentType: "application/octet-stream"]
        return try await exchange(.put, path, fields, body: StoredValue.file(of: value), for: .write, key: key)
    }

    private func makeCollections(_ parts: [String], _ key: EntryKey) async throws(BackendError) {
        var paths = creating ? [base] : []
        if !creating { try await checkFolder(.write, key) }
        for count in 1..<max(1, parts.count) { paths.append(path(of: Array(parts.prefix(count))) + "/") }
        for path in paths {
            let answer = try await exchange(.mkcol, path, HTTPFields(), for: .write, key: key)
            // 405: it is there.
            guard [200, 201, 405].contains(answer.response.status.code) else { throw failure(answer, .write, key) }
        }
    }

    private func checkFolder(_ operation: BackendError.Operation, _ key: EntryKey?) async throws(BackendError) {
        let answer = try await find(base, depth: "0", operation, key)
        switch answer.response.status.code {
        case 207: return
        case 404 where creating: return
        case 404, 409:
            throw BackendError(
                .missing, operation: operation, key: key,
                message: "\(label): there is no such folder; make it, or is the share not mounted?")
        default: throw failure(answer, operation, key)
        }
    }

    private func find(
        _ path: String, depth: String, _ operation: BackendError.Operation, _ key: EntryKey?
    ) async throws(BackendError) -> TransportAnswer {
        var fields: HTTPFields = [.contentType: "application/xml; charset=utf-8"]
        if let name = HTTPField.Name("Depth") { fields[name] = depth }
        let question =
            "<?xml version=\"1.0\"?><propfind xmlns=\"DAV:\"><prop><getetag/><resourcetype/></prop></propfind>"
        return try await exchange(.propfind, path, fields, body: Array(question.utf8), for: operation, key: key)
    }

    private func members(of folder: [String]) async throws(BackendError) -> [(
        name: String, isCollection: Bool, tag: String?
    )] {
        let path = folder.isEmpty ? base : path(of: folder) + "/"
        let answer = try await find(path, depth: "1", .list, nil)
        switch answer.response.status.code {
        case 207: break
        case 404 where !folder.isEmpty: return []
        case 404 where creating: return []
        case 404:
            try await checkFolder(.list, nil)
            return []
        default: throw failure(answer, .list, nil)
        }
        guard let listing = Multistatus(answer.body) else {
            throw BackendError(
                .notAStore, operation: .list, message: "\(label): the answer is no listing; is this a WebDAV server?")
        }
        return listing.members.compactMap { member in
            // An address or a path, and what names it last; the collection itself is not its own member.
            let path =
                member.href.hasPrefix("/")
                ? member.href
                : "/"
                    + (member.href.split(
                        separator: "/", maxSplits: 2, omittingEmptySubsequences: true
                    ).last.map(String.init) ?? "")
            let parts = path.split(separator: "/").map(String.init)
            let own = (folder.isEmpty ? base : self.path(of: folder)).split(separator: "/").count
            guard parts.count == own + 1, let last = parts.last, let name = last.removingPercentEncoding else {
                return nil
            }
            return (name, member.isCollection, member.tag)
        }
    }

    private func exchange(
        _ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields, body: [UInt8] = [],
        for operation: BackendError.Operation, key: EntryKey?
    ) async throws(BackendError) -> TransportAnswer {
        try BackendError.throwIfCancelled(operation, key: key)
        var request = HTTPRequest(
            method: method, scheme: scheme, authority: authority, path: path, headerFields: fields)
        do throws(BackendError) {
            if let (user, password) = try await credentials() {
                let text = Data("\(user):\(password)".utf8).base64EncodedString()
                request.headerFields[.authorization] = "Basic \(text)"
            }
        } catch {
            throw error.during(operation, key: key)
        }
        do throws(TransportError) {
            let most = (capabilities.maximumValueByteCount ?? 0) + StoredValue.overhead
            return try await transport.send(
                request, body: body, timeout: timeout, maximumByteCount: max(most, 16 << 20))
        } catch {
            throw BackendError(error, operation: operation, key: key, label: label)
        }
    }

    private func failure(
        _ answer: TransportAnswer, _ operation: BackendError.Operation, _ key: EntryKey?
    ) -> BackendError {
        // 423: somebody has locked the file. 400 and 405: no WebDAV is spoken here.
        let status = answer.response.status
        let problem = Problem(status, "\(label): the server answered \(status.code) \(status.reasonPhrase)")
        let error = problem.error(during: operation, key: key)
        guard [400, 405].contains(status.code) else { return error }
        return BackendError(
            .notAStore, operation: operation, key: key,
            message: "\(label): the server answered \(status.code); does it speak WebDAV here?")
    }
}

extension HTTPRequest.Method {
    fileprivate static var mkcol: Self { Self("MKCOL") ?? .put }
    fileprivate static var propfind: Self { Self("PROPFIND") ?? .get }
}
