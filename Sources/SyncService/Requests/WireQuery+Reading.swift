import HTTPTypes
import SyncProtocol

extension WireQuery {
    /// The page size requested with `limit`, at most the server's own limit.
    ///
    /// - Throws: ``RequestError`` for a malformed `limit`.
    func pageSize(_ limits: KeyValueService.Limits) throws(RequestError) -> Int {
        guard let text = self["limit"] else { return limits.usualPageSize }
        let isNumber = !text.isEmpty && text.utf8.allSatisfy(\.isASCIIDigit)
        // A number beyond a machine word exceeds the limit, too.
        let number = isNumber ? Int(text) ?? .max : 0
        guard number >= 1 else {
            throw RequestError(
                .badRequest,
                "limit must be a whole number from 1 to \(limits.pageSize), not \"\(Self.shortened(text))\"")
        }
        return min(number, limits.pageSize)
    }

    /// The Boolean parameter called `name`; `nil` if it is missing.
    ///
    /// - Throws: ``RequestError`` for any value but `true` and `false`, so that a misspelt flag is not ignored.
    func flag(_ name: String) throws(RequestError) -> Bool? {
        guard let text = self[name] else { return nil }
        guard let flag = Bool(text) else {
            throw RequestError(.badRequest, "\(name) must be true or false, not \"\(Self.shortened(text))\"")
        }
        return flag
    }

    /// Refuses parameters other than `known`.
    func check(known: [String]) throws(RequestError) {
        guard let unknown = pairs.first(where: { !known.contains($0.name) }) else { return }
        throw RequestError(
            .badRequest,
            "unknown query parameter \"\(Self.shortened(unknown.name))\"; "
                + (known.isEmpty ? "none is known here" : "known here: " + known.joined(separator: ", ")))
    }

    /// A text from a client, shortened for a message.
    private static func shortened(_ text: String) -> String {
        text.count <= 64 ? text : text.prefix(64) + "…"
    }
}
