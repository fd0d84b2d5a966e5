import HTTPTypes
import SyncCore
import SyncProtocol

extension WebDAVBackend {
    /// A member of a collection.
    struct Member {
        var name: String
        var isCollection: Bool
        var tag: String?
    }

    func path(of parts: [String]) -> String {
        // "=" needs no encoding in a path (RFC 3986, section 3.3).
        address.path + parts.joined(separator: "/")
    }

    /// Lists the members of the store's folder, or of its collection `folder`.
    func members(of folder: [String]) async throws(BackendError) -> [Member] {
        let path = folder.isEmpty ? address.path : path(of: folder) + "/"
        let answer = try await find(path, depth: "1", .list, nil)
        switch answer.response.status.code {
        case 207: return try members(in: answer, of: folder)
        case 404 where !folder.isEmpty:
            // The collection, or the whole folder, was removed in the meantime.
            try await checkFolder(.list, nil)
            return []
        case 404 where creating: return []
        case 404: throw missing(.list, nil)
        default: throw failure(answer, .list, nil)
        }
    }

    /// Throws unless the folder exists or may be created.
    func checkFolder(_ operation: BackendError.Operation, _ key: EntryKey?) async throws(BackendError) {
        let answer = try await find(address.path, depth: "0", operation, key)
        switch answer.response.status.code {
        case 207: _ = try resources(in: answer, operation, key)
        case 404 where creating: return
        case 404: throw missing(operation, key)
        default: throw failure(answer, operation, key)
        }
    }

    /// Creates the missing collections of a file's path, and the folder if allowed.
    func makeCollections(on parts: [String], _ key: EntryKey) async throws(BackendError) {
        if creating {
            let answer = try await makeCollection(address.path, key)
            // The parent collection is missing.
            if answer.response.status.code == 409 {
                var path = "/"
                for name in address.path.split(separator: "/") {
                    path += name + "/"
                    // For existing collections some servers answer 405 and others 403.
                    _ = try await makeCollection(path, key)
                }
            }
        }
        try await checkFolder(.write, key)
        for count in 1..<max(1, parts.count) {
            let answer = try await makeCollection(path(of: Array(parts.prefix(count))) + "/", key)
            // 405: the collection exists.
            guard [200, 201, 405].contains(answer.response.status.code) else { throw failure(answer, .write, key) }
        }
    }

    private func makeCollection(_ path: String, _ key: EntryKey) async throws(BackendError) -> TransportAnswer {
        try await exchange(.mkcol, path, HTTPFields(), for: .write, key: key)
    }

    private func missing(_ operation: BackendError.Operation, _ key: EntryKey?) -> BackendError {
        BackendError(
            .missing, operation: operation, key: key,
            message: "\(label): the folder does not exist; create it, or check that its disk is mounted")
    }

    private func find(
        _ path: String, depth: String, _ operation: BackendError.Operation, _ key: EntryKey?
    ) async throws(BackendError) -> TransportAnswer {
        var fields: HTTPFields = [.contentType: "application/xml; charset=utf-8", .cacheControl: "no-cache"]
        if let name = HTTPField.Name("Depth") { fields[name] = depth }
        let question =
            "<?xml version=\"1.0\"?><propfind xmlns=\"DAV:\"><prop><getetag/><resourcetype/></prop></propfind>"
        var attempts = Attempts(host: host, limit: timeout)
        return try await ask(
            .propfind, path, fields, body: Array(question.utf8), for: operation, key: key, &attempts)
    }

    /// The resources of an answer, with the requested collection first.
    ///
    /// Its path is not compared with the requested one, because a proxy may have changed it. It is the only resource
    /// with the shortest path. An answer without it is not a listing and proves no absence.
    private func resources(
        in answer: TransportAnswer, _ operation: BackendError.Operation, _ key: EntryKey?
    ) throws(BackendError) -> [(path: HrefPath, resource: Multistatus.Resource)] {
        var resources: [(path: HrefPath, resource: Multistatus.Resource)] = []
        do throws(XMLReader.Malformed) {
            for resource in try Multistatus(answer.body).resources {
                guard let path = HrefPath(resource.href) else { throw XMLReader.Malformed() }
                resources.append((path, resource))
            }
        } catch { throw noListing(operation, key) }
        let shortest = resources.map(\.path.names.count).min()
        let own = resources.filter { $0.path.names.count == shortest }
        guard own.count == 1, own[0].resource.isCollection, own[0].resource.status ?? 200 == 200,
            resources.allSatisfy({ $0.path.names.starts(with: own[0].path.names) })
        else { throw noListing(operation, key) }
        return own + resources.filter { $0.path.names.count != shortest }
    }

    private func members(in answer: TransportAnswer, of folder: [String]) throws(BackendError) -> [Member] {
        let resources = try resources(in: answer, .list, nil)
        let own = resources[0].path.names
        if let name = folder.last, own.last != Array(name.utf8) { throw noListing(.list, nil) }
        var members: [Member] = []
        var names: Set<String> = []
        for (path, resource) in resources.dropFirst() {
            // Skip deeper resources, which some servers send unasked. 404: the file was removed in the meantime.
            guard path.names.count == own.count + 1, resource.status != 404,
                let name = path.names.last.flatMap({ String(validating: $0, as: UTF8.self) }),
                names.insert(name).inserted
            else { continue }
            members.append(Member(name: name, isCollection: resource.isCollection, tag: resource.tag))
        }
        return members
    }

    private func noListing(_ operation: BackendError.Operation, _ key: EntryKey?) -> BackendError {
        BackendError(
            .notAStore, operation: operation, key: key,
            message:
                "\(label): the answer is not the listing of a folder; check that this is the address of a WebDAV folder"
        )
    }
}
