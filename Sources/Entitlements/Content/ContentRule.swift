/// A rule that opens paths of a web server to buyers.
///
/// The rules of a catalogue decide about paths alone. What no rule matches is closed, and of several rules that match
/// the most specific one decides: the one with more segments, then the one whose first differing segment is literal.
public struct ContentRule: Hashable, Sendable {
    /// The time that must be paid for a rule to open a path.
    public enum Basis: String, Hashable, Sendable, CaseIterable {
        /// `{set}` in the path is the number of a period that was paid, counted from 1 in the order of their starts.
        /// The set stays open after the period has ended.
        case period
        /// `{date}` in the path, `YYYY-MM-DD`, is a day (UTC) that has begun and of which some time was paid. A day
        /// that is paid from noon opens at noon, and stays open.
        case date
        /// The group is active, or the entitlement is granted, now.
        case current = "now"
    }

    /// The purchases that decide.
    public enum Source: Hashable, Sendable {
        /// The periods of a group.
        case group(GroupID)
        /// The access to an entitlement, for rules by now.
        case entitlement(EntitlementID)

        var group: GroupID? { if case .group(let id) = self { id } else { nil } }
    }

    /// A path: `/` and segments, which are literal, or `{set}` or `{date}`. With a final `/` it covers everything
    /// below.
    public var path: String
    /// The purchases that decide.
    public var source: Source
    /// The time that must be paid for the rule to open a path.
    public var basis: Basis
    /// The lowest level of service for which the rule opens a path, as a number from 1, the highest level, to 1,000.
    /// Groups without levels have level 1.
    public var maximumLevel: Int64

    /// Creates a rule.
    public init(path: String, source: Source, basis: Basis, maximumLevel: Int64 = 1) {
        (self.path, self.source, self.basis, self.maximumLevel) = (path, source, basis, maximumLevel)
    }
}

/// A segment of the path of a rule.
enum ContentSegment: Hashable, Sendable {
    case literal(String)
    case set
    case date
}

extension ContentRule {
    /// The largest number of rules in a catalogue.
    static let maximumCount = 64
    /// The longest path, in bytes.
    static let pathByteCount = 255

    /// True if the rule covers everything below its path.
    var isPrefix: Bool { path.hasSuffix("/") }

    /// The segments, without the empty one after a final slash.
    var segments: [ContentSegment] {
        path.split(separator: "/").map { text in
            switch text {
            case "{set}": .set
            case "{date}": .date
            default: .literal(String(text))
            }
        }
    }

    /// The reason why the path is refused; `nil` if it is valid.
    var objection: String? {
        guard path.hasPrefix("/"), path.utf8.count <= Self.pathByteCount else {
            return "a path must begin with \"/\" and have at most \(Self.pathByteCount) bytes"
        }
        let segments = segments
        guard !path.utf8.contains(UInt8(ascii: ";")) else {
            return "a path must have no \";\", because some web servers cut a segment there"
        }
        guard let plain = ContentPath(decoded: path), plain.segments.count == segments.count else {
            return
                "a path must have no empty, \".\" or \"..\" segments, backslashes, percent signs or control characters"
        }
        let needed: ContentSegment? =
            switch basis {
            case .period: .set
            case .date: .date
            case .current: nil
            }
        let variables = segments.filter { if case .literal = $0 { false } else { true } }
        guard variables == (needed.map { [$0] } ?? []) else {
            return switch basis {
            case .period: "a rule by period needs exactly one segment {set}"
            case .date: "a rule by date needs exactly one segment {date}"
            case .current: "a rule by now has neither {set} nor {date}"
            }
        }
        let literals = segments.compactMap { if case .literal(let text) = $0 { text } else { nil } }
        guard !literals.contains(where: { $0.contains("{") || $0.contains("}") }) else {
            return "braces stand only around a whole segment: {set} or {date}"
        }
        return nil
    }
}

/// The path of a request, decoded, in segments.
package struct ContentPath: Hashable, Sendable {
    /// The segments, without the empty one after a final slash.
    package let segments: [String]
    /// True if the path ends with a slash.
    package let isFolder: Bool

    /// Parses the target of a request as a client sent it: a path, percent-encoded once, and perhaps a query.
    ///
    /// A web server in front normalises the path before it finds a file. So everything that could make the two differ
    /// is refused: empty segments, `.` and `..`, also with parameters after a `;`, encoded slashes, backslashes,
    /// percent signs, control characters, and what is not UTF-8.
    package init?(target: String) {
        let encoded = target.utf8.prefix { $0 != UInt8(ascii: "?") }
        guard !encoded.contains(UInt8(ascii: "#")) else { return nil }
        var bytes: [UInt8] = []
        var iterator = encoded.makeIterator()
        while let byte = iterator.next() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = iterator.next().flatMap(Self.value), let low = iterator.next().flatMap(Self.value) else {
                return nil
            }
            let decoded = high << 4 | low
            guard decoded != UInt8(ascii: "/") else { return nil }
            bytes.append(decoded)
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
        self.init(decoded: text)
    }

    /// Splits a path that is decoded.
    init?(decoded text: String) {
        guard text.utf8.first == UInt8(ascii: "/") else { return nil }
        let isClean = text.utf8.allSatisfy { byte in
            byte >= 0x20 && byte != 0x7F && byte != UInt8(ascii: "\\") && byte != UInt8(ascii: "%")
        }
        guard isClean else { return nil }
        var parts = text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).dropFirst()
            .map { String(decoding: $0, as: UTF8.self) }
        let isFolder = parts.last?.isEmpty == true
        if isFolder { parts.removeLast() }
        self.init(parts, isFolder: isFolder)
        guard withoutParameters.segments.allSatisfy({ !["", ".", ".."].contains($0) }) else { return nil }
    }

    private init(_ segments: [String], isFolder: Bool) { (self.segments, self.isFolder) = (segments, isFolder) }

    /// The path as servers such as Tomcat read it, which cut each segment at its first `;`.
    var withoutParameters: ContentPath {
        ContentPath(
            segments.map { String(decoding: $0.utf8.prefix { $0 != UInt8(ascii: ";") }, as: UTF8.self) },
            isFolder: isFolder)
    }

    private static func value(of digit: UInt8) -> UInt8? {
        Character(Unicode.Scalar(digit)).hexDigitValue.map { UInt8($0) }
    }
}
