#if Evidence
import SwiftASN1

/// The entry point to the DER of a receipt.
enum DERDocument {
    /// The largest number of elements of one document.
    ///
    /// SwiftASN1 keeps about a hundred bytes for each element, and an element may be as short as two bytes. A receipt
    /// has four elements for each attribute, so the limit admits every real receipt within
    /// ``EvidenceLimits/receipt``.
    private static let maximumElementCount = 1 << 16

    /// Parses `bytes`, which must be exactly one DER element. `name` is the document's name in messages.
    static func parse(_ bytes: ArraySlice<UInt8>, _ name: String) throws(EvidenceError) -> ASN1Node {
        try checkElements(of: bytes, name)
        do {
            return try DER.parse(bytes)
        } catch {
            throw EvidenceError(.format, "\(name) is not valid DER")
        }
    }

    /// Checks the headers of all elements before anything is allocated for them.
    private static func checkElements(of bytes: ArraySlice<UInt8>, _ name: String) throws(EvidenceError) {
        var scanner = DERHeaderScanner(rest: bytes, name: name)
        var count = 0
        var end: Int?
        while !scanner.rest.isEmpty {
            let header = try scanner.next()
            count += 1
            guard count <= maximumElementCount else {
                throw EvidenceError(.size, "\(name) has more than \(maximumElementCount) elements")
            }
            if !header.isConstructed { scanner.rest = scanner.rest.dropFirst(header.length) }
            if end == nil {
                end = header.contentStart + header.length
                if let end, end < bytes.endIndex {
                    throw EvidenceError(.format, "unexpected bytes after the end of \(name): \(bytes.endIndex - end)")
                }
            }
        }
        guard count > 0 else { throw EvidenceError(.format, "\(name) is empty") }
    }
}

/// A reader of the tags and lengths of DER elements.
private struct DERHeaderScanner {
    struct Header {
        var isConstructed: Bool
        var contentStart: Int
        var length: Int
    }

    var rest: ArraySlice<UInt8>
    let name: String

    /// Reads one header, and checks that the content fits into the rest of the document.
    mutating func next() throws(EvidenceError) -> Header {
        let tag = try byte()
        guard tag & 0x1F != 0x1F else {
            throw EvidenceError(.format, "\(name) has a tag of several bytes, which receipts do not use")
        }
        let length = try self.length()
        guard length <= rest.count else {
            throw EvidenceError(.format, "\(name) is cut off in the middle of an element")
        }
        return Header(isConstructed: tag & 0x20 != 0, contentStart: rest.startIndex, length: length)
    }

    private mutating func length() throws(EvidenceError) -> Int {
        let first = try byte()
        guard first != 0x80 else {
            throw EvidenceError(.format, "\(name) has an indefinite length, which DER does not allow")
        }
        guard first > 0x80 else { return Int(first) }
        guard first <= 0x84 else { throw EvidenceError(.format, "\(name) has an element of more than 4 GiB") }
        var length = 0
        for _ in 0..<(first & 0x7F) { length = length << 8 | Int(try byte()) }
        return length
    }

    private mutating func byte() throws(EvidenceError) -> UInt8 {
        guard let byte = rest.popFirst() else {
            throw EvidenceError(.format, "\(name) is cut off in the middle of an element")
        }
        return byte
    }
}

/// The children of a constructed element, read in order.
///
/// SwiftASN1's own `DER.set` is not used because the sets in Apple's receipts are not sorted.
struct DERFields {
    private var rest: ASN1NodeCollection.Iterator
    private let name: String

    /// Opens `node`, which must be constructed and have the tag `identifier`.
    init(_ node: ASN1Node, _ identifier: ASN1Identifier, _ name: String) throws(EvidenceError) {
        guard node.identifier == identifier, case .constructed(let children) = node.content else {
            throw EvidenceError(.format, "\(name) has the wrong type")
        }
        rest = children.makeIterator()
        self.name = name
    }

    /// Returns the next child.
    mutating func next(_ field: String) throws(EvidenceError) -> ASN1Node {
        guard let node = rest.next() else { throw EvidenceError(.format, "\(name) has no \(field)") }
        return node
    }

    /// Returns the next child if it has the tag `[number]`.
    mutating func next(tagged number: UInt) -> ASN1Node? {
        var ahead = rest
        guard let node = ahead.next(), node.identifier == .contextTag(number) else { return nil }
        rest = ahead
        return node
    }

    /// Returns all remaining children.
    mutating func all() -> [ASN1Node] {
        var nodes: [ASN1Node] = []
        while let node = rest.next() { nodes.append(node) }
        return nodes
    }

    /// Checks that no children are left.
    mutating func end() throws(EvidenceError) {
        guard rest.next() == nil else { throw EvidenceError(.format, "\(name) has an unexpected field") }
    }
}

extension ASN1Node {
    func integer(_ name: String) throws(EvidenceError) -> Int64 {
        do {
            return try Int64(derEncoded: self)
        } catch {
            throw EvidenceError(.format, "\(name) is not an integer of 64 bits")
        }
    }

    func objectIdentifier(_ name: String) throws(EvidenceError) -> ASN1ObjectIdentifier {
        do {
            return try ASN1ObjectIdentifier(derEncoded: self)
        } catch {
            throw EvidenceError(.format, "\(name) is not an object identifier")
        }
    }

    func octets(_ name: String) throws(EvidenceError) -> ArraySlice<UInt8> {
        guard identifier == .octetString, case .primitive(let bytes) = content else {
            throw EvidenceError(.format, "\(name) is not an octet string")
        }
        return bytes
    }
}

extension ASN1Identifier {
    /// The context-specific tag `[number]`.
    static func contextTag(_ number: UInt) -> ASN1Identifier {
        ASN1Identifier(tagWithNumber: number, tagClass: .contextSpecific)
    }
}
#endif
