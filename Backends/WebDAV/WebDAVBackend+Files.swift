import HTTPTypes
import SyncCore
import SyncProtocol
import Synchronization

extension WebDAVBackend {
    /// The result of reading a file.
    enum FileOutcome {
        case entry(Entry)
        /// The file still has the known tag.
        case unchanged
        case missing
        /// The file is not a valid entry. The version depends only on its bytes.
        case unreadable(BackendError, EntryVersion)
    }

    /// Reads a file, and repeats the read if a concurrent write may have interfered.
    ///
    /// Apache checks a file before it opens it. If the file is replaced or deleted in between, the answer is a 403, or
    /// has the length of one content and the bytes of the other, or is truncated.
    func file(
        at path: String, _ key: EntryKey, unless tag: String?, for operation: BackendError.Operation
    ) async throws(BackendError) -> FileOutcome {
        var fields: HTTPFields = [.cacheControl: "no-cache"]
        fields[.ifNoneMatch] = tag
        var attempts = Attempts(host: host, limit: timeout)
        var former: [UInt8]?
        while true {
            let answer = try await ask(.get, path, fields, for: operation, key: key, &attempts)
            switch answer.response.status.code {
            case 200:
                let defect: StoredFile.Defect
                do throws(StoredFile.Defect) {
                    let entry = try StoredFile.entry(in: answer.body, key: key)
                    remember(answer.response, entry.version, at: path)
                    return .entry(entry)
                } catch { defect = error }
                // Two equal answers are not a coincidence.
                var isLasting = former == answer.body
                former = answer.body
                if !isLasting { isLasting = !(try await attempts.begin(operation, key)) }
                if isLasting {
                    return .unreadable(error(of: defect, operation, key), StoredFile.standIn(for: answer.body))
                }
            case 304 where tag != nil: return .unchanged
            case 404, 410: return .missing
            case 403:
                if try await attempts.begin(operation, key) { continue }
                return .unreadable(failure(answer, operation, key), StoredFile.standIn(for: Array(path.utf8)))
            default: throw failure(answer, operation, key)
            }
        }
    }

    private func error(
        of defect: StoredFile.Defect, _ operation: BackendError.Operation, _ key: EntryKey
    ) -> BackendError {
        switch defect {
        case .damaged:
            BackendError(
                .damaged, operation: operation, key: key,
                message: "\(label): the file of this key is truncated, changed, or not an entry; restore or delete it")
        case .newer:
            BackendError(
                .newerFormat, operation: operation, key: key,
                message: "\(label): the file of this key was written by a later version; update this software")
        }
    }

    /// Remembers a tag that identifies the content.
    ///
    /// Servers derive tags from the time and size of a file. File systems store times in steps of up to two seconds, so
    /// two writes may have the same tag until three seconds after the first. Apache marks it as weak for one second
    /// only.
    private func remember(_ response: HTTPResponse, _ version: EntryVersion, at path: String) {
        let fields = response.headerFields
        guard let tag = fields[.eTag], !tag.hasPrefix("W/"),
            let changed = fields[.lastModified].flatMap(RetryAfter.seconds),
            let now = fields[.date].flatMap(RetryAfter.seconds), now - changed >= 3
        else {
            known.withLock { $0[path] = nil }
            return
        }
        known.withLock { $0[path] = (tag, version) }
    }
}
