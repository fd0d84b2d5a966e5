/// The answer to a `PROPFIND` (RFC 4918, section 9.1): the content of a collection.
struct Multistatus {
    /// The properties of one resource.
    struct Resource: Hashable {
        /// The location as the server wrote it: a percent-encoded path or URL.
        var href = ""
        /// True for a collection.
        var isCollection = false
        /// The entity tag, if the server sent one.
        var tag: String?
        /// The status of the whole resource, if any. The server sends it if it could not read the resource.
        var status: Int?
    }

    /// The resources in the order of the answer, including the collection itself.
    private(set) var resources: [Resource] = []

    /// The elements whose text is read.
    private static let textElements: Set = ["href", "status", "getetag"]
    /// The maximum length of a text.
    private static let longestText = 16 << 10

    /// Parses the XML of an answer.
    init(_ xml: [UInt8]) throws(XMLReader.Malformed) {
        var reader = try XMLReader(xml)
        var path: [String] = []
        var text: [UInt8] = []
        while let event = try reader.next() {
            switch event {
            case .start(let namespace, let name):
                // Names of other namespaces are ignored.
                path.append(namespace == "DAV:" ? name : "")
                text = []
                if path.count == 1, path != ["multistatus"] { throw XMLReader.Malformed() }
                try begin(path)
            case .text(let more) where Self.textElements.contains(path.last ?? ""):
                guard text.count + more.count <= Self.longestText else { throw XMLReader.Malformed() }
                text += more
            case .text: break
            case .end:
                try end(path, Self.trimmed(text))
                path.removeLast()
                text = []
            }
        }
    }

    private mutating func begin(_ path: [String]) throws(XMLReader.Malformed) {
        switch path {
        case ["multistatus", "response"]: resources.append(Resource())
        case ["multistatus", "response", "propstat", "prop", "resourcetype", "collection"]:
            resources[resources.count - 1].isCollection = true
        default: break
        }
    }

    private mutating func end(_ path: [String], _ text: String) throws(XMLReader.Malformed) {
        let last = resources.count - 1
        switch path {
        case ["multistatus", "response"]:
            guard !resources[last].href.isEmpty else { throw XMLReader.Malformed() }
        case ["multistatus", "response", "href"]:
            // A response with a common status may have several hrefs. The first one is used.
            if resources[last].href.isEmpty { resources[last].href = text }
        case ["multistatus", "response", "status"]:
            // "HTTP/1.1 404 Not Found"
            let parts = text.split(separator: " ")
            guard parts.count >= 2, let status = Int(parts[1]) else { throw XMLReader.Malformed() }
            resources[last].status = status
        case ["multistatus", "response", "propstat", "prop", "getetag"] where !text.isEmpty: resources[last].tag = text
        default: break
        }
    }

    private static func trimmed(_ text: [UInt8]) -> String {
        let isSpace: (UInt8) -> Bool = { $0 <= 0x20 }
        let end = text.lastIndex { !isSpace($0) }.map { $0 + 1 } ?? 0
        return String(decoding: text[..<end].drop(while: isSpace), as: UTF8.self)
    }
}
