import HTTPTypes
import SyncCore
import SyncProtocol

/// The address of a folder on a WebDAV server.
struct FolderAddress: Sendable {
    /// `http` or `https`.
    let scheme: String
    /// Host and port.
    let authority: String
    /// The path of the folder, percent-encoded, with a slash at both ends.
    let path: String

    /// Parses `webdavs://HOST[:PORT][/FOLDER]`, `webdav://…`, `https://…` or `http://…`. A trailing slash is optional.
    init(_ text: String) throws(BackendError) {
        let refused = BackendError(
            .notAStore, operation: .open,
            message: "this is not the address of a WebDAV folder; use webdavs://HOST/FOLDER, percent-encoded, "
                + "without user, password, query or fragment")
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
        // "." and ".." would be resolved and lead out of the folder.
        let isPlain = names.allSatisfy { name in
            guard let bytes = PercentCoding.decoded(name.utf8) else { return false }
            return ![Array(".".utf8), Array("..".utf8)].contains(bytes) && !bytes.contains(0x2F)
        }
        guard !authority.isEmpty, isPlain else { throw refused }
        path = "/" + names.map { $0 + "/" }.joined()
    }

    /// The normalized address, without secrets.
    var label: String { (scheme == "https" ? "webdavs" : "webdav") + "://" + authority + path }

    /// Creates a request for `path`.
    func request(_ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields) -> HTTPRequest {
        HTTPRequest(method: method, scheme: scheme, authority: authority, path: path, headerFields: fields)
    }
}

/// The path of an `href` (RFC 4918, section 8.3), which is either a URL or an absolute path.
struct HrefPath: Hashable {
    /// The decoded path components.
    var names: [[UInt8]]

    /// Parses a path or a URL; `nil` for neither.
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
