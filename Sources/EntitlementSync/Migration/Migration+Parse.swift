public import Entitlements

extension Migration {
    /// The maximum size of a Parse export, in bytes.
    static let maximumExportByteCount = 64 << 20

    /// Reads one user from an export of Parse's `_User` class: `ExpirationDate`, one date or an array of dates.
    ///
    /// The export is `{"results":[…]}`, an array, a single object, or one object per line. A date is
    /// `{"__type":"Date","iso":"…"}` or RFC 3339 text. Only `username`, `objectId`, `updatedAt` and `ExpirationDate`
    /// are read; password hashes and session tokens are neither kept nor shown.
    ///
    /// - Parameters:
    ///   - json: The export, at most 64 MiB.
    ///   - user: The user's `username` or `objectId`. Required if the export has several users.
    /// - Throws: `InputError` with the line of a syntax error or the path of an invalid value, or if not exactly one
    ///   user matches.
    public static func parse(json: some Collection<UInt8>, user: String? = nil) throws(InputError) -> Migration {
        guard json.count <= maximumExportByteCount else {
            throw InputError(
                path: "",
                reason: "the export must be at most \(maximumExportByteCount) bytes, not \(json.count): "
                    + "extract the user from it")
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
            : "\(found) users of the export match \"\(user.singleLine)\": name one by objectId"
    }

    private static func objects(_ bytes: [UInt8]) throws(InputError) -> [JSONReader] {
        if let lines = try objectLines(bytes) { return lines }
        let root = JSONReader(try JSON(parsing: bytes))
        guard case .object = root.value else { return try root.array() }
        guard root.value["results"] != nil else { return [root] }
        return try root.object().required("results").array()
    }

    /// Returns the objects of an export with one object per line; `nil` for any other export.
    private static func objectLines(_ bytes: [UInt8]) throws(InputError) -> [JSONReader]? {
        let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
        let filled = lines.indices.filter { !lines[$0].allSatisfy { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D } }
        guard filled.count > 1, let first = filled.first,
            case .object? = try? JSON(parsing: lines[first])
        else { return nil }
        var readers: [JSONReader] = []
        for index in filled {
            readers.append(JSONReader(try JSON(parsing: lines[index], firstLine: index + 1), path: "line \(index + 1)"))
        }
        return readers
    }
}

/// The part of a Parse user that a migration reads.
private struct ParseUser {
    private let members: JSONObjectReader
    private let username: String?
    private let objectID: String?

    init(_ reader: JSONReader) throws(InputError) {
        members = try reader.object()
        username = try members["username"]?.string()
        objectID = try members["objectId"]?.string()
        guard username != nil || objectID != nil else {
            throw reader.error("a Parse user needs a username or an objectId")
        }
    }

    func isCalled(_ name: String) -> Bool {
        // Compares bytes, like account names.
        [username, objectID].contains { $0.map { $0.utf8.elementsEqual(name.utf8) } ?? false }
    }

    func migration() throws(InputError) -> Migration {
        var expiries: [Timestamp] = []
        if let reader = members["ExpirationDate"] {
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
            guard try type.string() == "Date" else { throw type.error("a Parse date must have the type Date") }
            return try members.required("iso").timestamp()
        default: throw reader.error("a date is expected, not \(reader.value.typeName)")
        }
    }
}
