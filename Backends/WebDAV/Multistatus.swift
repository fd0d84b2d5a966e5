import Foundation

#if canImport(FoundationXML)
import FoundationXML
#endif

/// The answer to a `PROPFIND` (RFC 4918, section 9.1): what is in a collection.
struct Multistatus {
    /// A member of a collection.
    struct Member: Hashable {
        /// Where it is, as the server wrote it: a path or an address, percent-encoded.
        var href: String
        /// Whether it is a collection.
        var isCollection: Bool
        /// Its entity tag, where the server told.
        var tag: String?
    }

    /// The collection itself, too.
    let members: [Member]

    /// Reads the XML of an answer; `nil` where it is none.
    init?(_ xml: [UInt8]) {
        let reader = Reader()
        let parser = XMLParser(data: Data(xml))
        parser.shouldProcessNamespaces = true
        parser.shouldResolveExternalEntities = false
        parser.delegate = reader
        guard parser.parse(), reader.isMultistatus else { return nil }
        members = reader.members
    }

    private final class Reader: NSObject, XMLParserDelegate {
        var members: [Member] = []
        var isMultistatus = false
        private var member: Member?
        private var text = ""

        func parser(
            _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
            attributes: [String: String]
        ) {
            guard namespaceURI == "DAV:" else { return }
            text = ""
            switch name {
            case "multistatus": isMultistatus = true
            case "response": member = Member(href: "", isCollection: false)
            case "collection": member?.isCollection = true
            default: break
            }
        }

        func parser(_ parser: XMLParser, foundCharacters characters: String) { text += characters }

        func parser(
            _ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?
        ) {
            guard namespaceURI == "DAV:" else { return }
            let trimmed = text.trimmingCharacters(in: .whitespacesAndNewlines)
            switch name {
            case "href" where member?.href.isEmpty == true: member?.href = trimmed
            case "getetag": member?.tag = trimmed
            case "response":
                if let member { members.append(member) }
                member = nil
            default: break
            }
        }
    }
}
