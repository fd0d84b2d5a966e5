public import Entitlements

extension Migration {
    /// The largest export of Parse that is read, in bytes.
    static let maximumExportByteCount = 64 << 20

    /// Reads one user of an export of Parse's `_User`: `ExpirationDate`, one date or an array of dates.
    ///
    /// The export is `{"results":[…]}`, an array, one object, or one object a line. A date is
    /// `{"__type":"Date","iso":"…"}` or RFC 3339 text. Of a user nothing is read but `username`, `objectId`,
    /// `updatedAt` and `ExpirationDate`: password hashes and session tokens are neither kept nor shown.
    ///
    /// - Parameters:
    ///   - json: the export, at most 64 MiB.
    ///   - user: the user's `username` or `objectId`; needed when there are several.
    /// - Throws: `InputError` with the line of what is no JSON or the path of what is wrong; when nobody, or more than
    ///   one, is the user.
    public static func parse(json: some Collection<UInt8>, user: String? = nil) throws(InputError) -> Migration {
        guard json.count <= maximumExportByteCount else {
            throw InputError(
                path: "",
                reason: "an export of \(json.count) bytes is not read, at most \(maximumExportByteCount): "
                    + "cut the user out of it")
        }
        var found: [ParseUser] = []
        var userCount = 0
        for reader in try objects(Array(json)) {
            let candidate = try ParseUser(reader)
            userCount += 1
            if user.map(candidate.isCalled) ?? true { found.append(candidate) }
        }
        guard let only = found.first, found.count == 1 else {
            throw InputError(path: "", reason: objection(to: user, found: found.count, of: userCount))
        }
        return try only.migration()
    }

    private static func objection(to user: String?, found: Int, of count: Int) -> String {
        guard let user else {
            return count == 0 ? "the export holds no user" : "the export holds \(count) users: name one with --user"
        }
        return found == 0
            ? "none of the \(count) users of the export is \"\(user.singleLine)\""
            : "\(found) users of the export are \"\(user.singleLine)\": name one by objectId"
    }

    private static func objects(_ bytes: [UInt8]) throws(InputError) -> [JSONReader] {
        if let lines = try objectLines(bytes) { return lines }
        let root = JSONReader(try parsed(bytes[...], line: 1))
        guard case .object(let members) = root.value else { return try root.array() }
        guard members["results"] != nil else { return [root] }
        return try root.object().required("results").array()
    }

    /// The objects of an export that holds one a line, `nil` for any other.
    private static func objectLines(_ bytes: [UInt8]) throws(InputError) -> [JSONReader]? {
        let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
        let filled = lines.indices.filter { !lines[$0].allSatisfy { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D } }
        guard filled.count > 1, let first = filled.first,
            case .object? = try? JSONValue(parsing: lines[first])
        else { return nil }
        var readers: [JSONReader] = []
        for index in filled {
            readers.append(JSONReader(try parsed(lines[index], line: index + 1), path: "line \(index + 1)"))
        }
        return readers
    }

    private static func parsed(_ bytes: ArraySlice<UInt8>, line: Int) throws(InputError) -> JSONValue {
        do { return try JSONValue(parsing: bytes) } catch {
            throw InputError(path: "line \(line + error.line - 1), column \(error.column)", reason: error.reason)
        }
    }
}

/// What of a Parse user is looked at.
private struct ParseUser {
    private let members: JSONObjectReader
    private let username: String?
    private let objectID: String?

    init(_ reader: JSONReader) throws(InputError) {
        members = try reader.object()
        username = try members["username"]?.string()
        objectID = try members["objectId"]?.string()
        guard username != nil || objectID != nil else {
            throw reader.error("a user of Parse has a username and an objectId, this has neither")
        }
    }

    func isCalled(_ name: String) -> Bool {
        // Byte by byte, as accounts are compared.
        [username, objectID].contains { $0.map { $0.utf8.elementsEqual(name.utf8) } ?? false }
    }

    func migration() throws(InputError) -> Migration {
        var expiries: [Timestamp] = []
        if let reader = members[Migration.expiryKey] {
            if case .array = reader.value {
                for element in try reader.array() { expiries.append(try Self.date(element)) }
            } else {
                expiries.append(try Self.date(reader))
            }
        }
        return Migration(
            source: "parse", expiries: expiries, statedAt: try members["updatedAt"].map(Self.date))
    }

    private static func date(_ reader: JSONReader) throws(InputError) -> Timestamp {
        switch reader.value {
        case .string: return try reader.timestamp()
        case .object:
            let members = try reader.object()
            let type = try members.required("__type")
            guard try type.string() == "Date" else { throw type.error("a date of Parse has the type Date") }
            return try members.required("iso").timestamp()
        default: throw reader.error("a date is expected, not \(reader.value.typeName)")
        }
    }
}
