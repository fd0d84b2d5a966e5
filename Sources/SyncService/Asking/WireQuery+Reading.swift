import HTTPTypes
import SyncCore
import SyncProtocol

extension WireQuery {
    /// How long a page is to be: `limit`, where there is one, but never more than the server's own limit.
    func pageSize(_ limits: KeyValueService.Limits) throws(BackendError) -> Int {
        guard let text = self["limit"] else { return limits.usualPageSize }
        let isNumber = !text.isEmpty && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        // More than a machine word is more than the limit, too.
        let number = isNumber ? Int(text) ?? .max : 0
        guard number >= 1 else {
            throw BackendError(.invalidCursor, message: "limit is a whole number of 1 or more")
        }
        return min(number, limits.pageSize)
    }

    /// The flag called `name`; `nil` where it is missing. A misspelt one must not be taken for a no.
    func flag(_ name: String) throws(RequestError) -> Bool? {
        guard let text = self[name] else { return nil }
        guard let flag = Bool(text) else { throw RequestError(.badRequest, "\(name) is true or false") }
        return flag
    }
}
