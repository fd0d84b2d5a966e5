import HTTPTypes
import SyncCore
import SyncProtocol
import Synchronization

extension WebDAVBackend {
    /// What is in the place of a file.
    enum FileOutcome {
        case entry(Entry)
        /// It still has the tag.
        case unchanged
        case missing
        /// Something is there; the version stands for it as long as it stays the same.
        case unreadable(BackendError, EntryVersion)
    }

    /// Reads a file, again where a writer may have been in the way.
    ///
    /// Apache looks at a file first and opens it then. When it is replaced or deleted in between, the answer is a 403,
    /// or has the length of one content and the bytes of the other, or breaks off.
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
                    note(answer.response, entry.version, at: path)
                    return .entry(entry)
                } catch { defect = error }
                // Twice the same is no accident.
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
                message: "\(label): the file of this key is cut, changed, or none of ours: restore it, or delete it")
        case .newer:
            BackendError(
                .newerFormat, operation: operation, key: key,
                message: "\(label): the file of this key was written by a later version: update this one")
        }
    }

    /// Remembers a tag that will not come again for another content.
    ///
    /// Servers make tags of a file's time and size. File systems count in steps of up to two seconds, so two writes may
    /// have one tag until three seconds after the first; Apache calls it weak for one second.
    private func note(_ response: HTTPResponse, _ version: EntryVersion, at path: String) {
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
