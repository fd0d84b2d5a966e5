import HTTPTypes
import SyncCore
import SyncProtocol

/// Where a folder of a WebDAV server is.
struct FolderAddress: Sendable {
    /// `http` or `https`.
    let scheme: String
    /// Host and port.
    let authority: String
    /// The folder's path, percent-encoded, with a slash at both ends.
    let path: String

    /// Reads `webdavs://HOST[:PORT][/FOLDER]`, `webdav://…`, `https://…` or `http://…`, a slash at the end or none.
    init(_ text: String) throws(BackendError) {
        let refused = BackendError(
            .notAStore, operation: .open,
            message: "this is no folder of a WebDAV server: write webdavs://HOST/FOLDER, percent-encoded, "
                + "without user, password, query and fragment")
        guard let mark = text.firstRange(of: "://"), text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw refused
        }
        switch text[..<mark.lowerBound].lowercased() {
        case "webdavs", "https": scheme = "https"
        case "webdav", "http": scheme = "http"
        default: throw refused
        }
        let rest = text[mark.upperBound...]
        guard !rest.contains(where: { "@?#\\".contains($0) }) else { throw refused }
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        authority = rest[..<slash].lowercased()
        let names = rest[slash...].split(separator: "/")
        // "." and ".." would be resolved on the way, and lead out of the folder.
        let isPlain = names.allSatisfy { name in
            guard let bytes = PercentCoding.decoded(name.utf8) else { return false }
            return ![Array(".".utf8), Array("..".utf8)].contains(bytes) && !bytes.contains(0x2F)
        }
        guard !authority.isEmpty, isPlain else { throw refused }
        path = "/" + names.map { $0 + "/" }.joined()
    }

    /// The address without secrets; the same for every spelling of it.
    var label: String { (scheme == "https" ? "webdavs" : "webdav") + "://" + authority + path }

    /// A request for what is at `path`.
    func request(_ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields) -> HTTPRequest {
        HTTPRequest(method: method, scheme: scheme, authority: authority, path: path, headerFields: fields)
    }
}

/// The path that a `href` names (RFC 4918, section 8.3): it is an address or an absolute path, as the server likes.
struct HrefPath: Hashable {
    /// The names on the way, decoded.
    var names: [[UInt8]]

    /// Reads a path or an address; `nil` for neither.
    init?(_ href: String) {
        var rest = href[...]
        if let mark = rest.firstRange(of: "://") {
            let host = rest[mark.upperBound...]
            rest = host[(host.firstIndex(of: "/") ?? host.endIndex)...]
            if rest.isEmpty { rest = "/" }
        }
        guard rest.hasPrefix("/") else { return nil }
        names = []
        for name in rest.split(separator: "/") {
            guard let bytes = PercentCoding.decoded(name.utf8) else { return nil }
            names.append(bytes)
        }
    }
}
