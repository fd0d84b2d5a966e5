import Entitlements
import SyncCore
import SyncService

// Objects of the configured classes. Each belongs to the user that created it.
extension ParseServer {
    /// Runs `body` for the caller of a request, with the key of its objects of the class `name`.
    func withObjects<Value>(
        _ name: String, _ request: ParseRequest, _ body: (ParseCaller, EntryKey) async throws -> Value
    ) async throws -> Value {
        guard configuration.classes.contains(name) else {
            throw ParseError(119, "This user is not allowed to access non-existent class: \(name.prefix(64))")
        }
        return try await withCaller(request) { try await body($0, try ParseObjects.key(of: name, $0.account.account)) }
    }

    func findObjects(_ request: ParseRequest, _ path: [String]) async throws -> Reply {
        try await withObjects(path[0], request) { _, key in
            let (condition, selection) = (try request.condition(), try request.selection())
            let known = try await gateway.records.read(key, as: ParseObjects.self)?.value ?? ParseObjects()
            return Reply(body: selection.answer(known.items.map(members).filter(condition.holds)))
        }
    }

    func getObject(_ request: ParseRequest, _ path: [String]) async throws -> Reply {
        try await withObjects(path[0], request) { _, key in
            let selection = try request.objectSelection()
            let known = try await gateway.records.read(key, as: ParseObjects.self)?.value
            guard let item = known?.items.first(where: { $0.id == path[1] }) else { throw ParseError.notFound }
            return Reply(body: .object(selection.shown(members(of: item))))
        }
    }

    func makeObject(_ request: ParseRequest, _ path: [String]) async throws -> Reply {
        try await withObjects(path[0], request) { try await create(request, path[0], $1, $0) }
    }

    func saveObject(_ request: ParseRequest, _ path: [String]) async throws -> Reply {
        try await withObjects(path[0], request) { try await update(request, path[1], $1, $0) }
    }

    func deleteObject(_ request: ParseRequest, _ path: [String]) async throws -> Reply {
        try await withObjects(path[0], request) { _, key in
            var isKnown = false
            _ = try await gateway.records.update(key) { (known: ParseObjects?) in
                guard var objects = known else { return nil }
                isKnown = objects.items.contains { $0.id == path[1] }
                objects.items.removeAll { $0.id == path[1] }
                return objects
            }
            guard isKnown else { throw ParseError.notFound }
            return Reply(body: .object([:]))
        }
    }

    private func members(of item: ParseObjects.Item) -> [String: JSON] {
        var members = (try? JSON(parsing: item.fields.utf8))?.members ?? [:]
        members["objectId"] = .string(item.id)
        members["createdAt"] = .string(Timestamp(milliseconds: item.createdAt).iso)
        members["updatedAt"] = .string(Timestamp(milliseconds: item.updatedAt).iso)
        return members
    }

    /// The members that an app sets.
    private func change(_ request: ParseRequest) throws(ParseError) -> FieldChange {
        for name in request.body.keys where !ParseName.isField(name) && name != "__type" {
            throw ParseError(105, "Invalid field name: \(name.prefix(64)).")
        }
        let own: Set = ["objectId", "createdAt", "updatedAt", "className", "__type"]
        return FieldChange(request.body.filter { !own.contains($0.key) })
    }

    private func create(
        _ request: ParseRequest, _ name: String, _ key: EntryKey, _ caller: ParseCaller
    ) async throws -> Reply {
        let (id, mark, change) = (randomText(10), mark(of: request), try change(request))
        var fields: [String: JSON] = [:]
        _ = try change.apply(to: &fields, isRepeated: false)
        var item = ParseObjects.Item(
            id: id, createdAt: mark.at, updatedAt: mark.at, digest: mark.digest, request: mark.id,
            fields: JSON.object(fields).canonicalText)
        var isFull = false
        _ = try await gateway.records.update(key) { (known: ParseObjects?) in
            var objects = known ?? ParseObjects()
            isFull = false
            if let index = objects.items.map(\.mark).index(repeatedBy: mark) {
                objects.items[index].repeatedAt = mark.at
                item = objects.items[index]
                return objects
            }
            objects.items.append(item)
            isFull = objects.byteCount > ParseObjects.byteLimit
            return isFull ? nil : objects
        }
        guard !isFull else {
            throw ParseError(116, "the objects of a class can have at most \(ParseObjects.byteLimit) bytes for a user")
        }
        return Reply(
            status: 201,
            body: .object([
                "objectId": .string(item.id), "createdAt": .string(Timestamp(milliseconds: item.createdAt).iso),
            ]), location: "\(configuration.path)/classes/\(name)/\(item.id)")
    }

    private func update(
        _ request: ParseRequest, _ id: String, _ key: EntryKey, _ caller: ParseCaller
    ) async throws -> Reply {
        let (mark, change) = (mark(of: request), try change(request))
        var (answer, failure): ([String: JSON], ParseError?) = ([:], nil)
        let saved = try await gateway.records.update(key) { (known: ParseObjects?) in
            guard var objects = known, let index = objects.items.firstIndex(where: { $0.id == id }) else { return nil }
            var item = objects.items[index]
            var fields = (try? JSON(parsing: item.fields.utf8))?.members ?? [:]
            var applied = objects.applied ?? []
            let isRepeated = applied.index(repeatedBy: mark) != nil
            do throws(ParseError) { answer = try change.apply(to: &fields, isRepeated: isRepeated) } catch {
                failure = error
                return nil
            }
            (item.fields, item.updatedAt) = (JSON.object(fields).canonicalText, mark.at)
            if change.isRelative {
                applied.remember(mark)
                objects.applied = applied
            }
            objects.items[index] = item
            guard objects.byteCount <= ParseObjects.byteLimit else {
                failure = ParseError(116, "the objects of a class can have at most \(ParseObjects.byteLimit) bytes")
                return nil
            }
            return objects
        }
        if let failure { throw failure }
        guard saved != nil else { throw ParseError.notFound }
        answer["updatedAt"] = .string(Timestamp(milliseconds: mark.at).iso)
        return Reply(body: .object(answer))
    }
}
