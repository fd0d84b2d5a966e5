/// The answer to a `PROPFIND` (RFC 4918, section 9.1): what is in a collection.
struct Multistatus {
    /// What the server tells of one resource.
    struct Resource: Hashable {
        /// Where it is, as the server wrote it: a path or an address, percent-encoded.
        var href = ""
        /// Whether it is a collection.
        var isCollection = false
        /// Its entity tag, where the server told.
        var tag: String?
        /// The status of the resource as a whole, where it has one: then it could not be looked at.
        var status: Int?
    }

    /// In the order of the answer; the collection itself is among them.
    private(set) var resources: [Resource] = []

    /// The elements whose text is read.
    private static let told: Set = ["href", "status", "getetag"]
    /// Longer texts are none of ours.
    private static let longestText = 16 << 10

    /// Reads the XML of an answer.
    init(_ xml: [UInt8]) throws(XMLReader.Malformed) {
        var reader = try XMLReader(xml)
        var path: [String] = []
        var text: [UInt8] = []
        while let event = try reader.next() {
            switch event {
            case .start(let namespace, let name):
                // Names of other namespaces stand for nothing here, whatever they are.
                path.append(namespace == "DAV:" ? name : "")
                text = []
                if path.count == 1, path != ["multistatus"] { throw XMLReader.Malformed() }
                try begin(path)
            case .text(let more) where Self.told.contains(path.last ?? ""):
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
            // With a status for all there may be several of them; the first stands for them.
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
