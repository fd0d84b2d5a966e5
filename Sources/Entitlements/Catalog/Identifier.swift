/// An id given by someone else: a store, a catalogue, an app. `Subject` keeps ids of different things apart.
///
/// Ids are compared, hashed and ordered as the bytes of their UTF-8. Swift's `==` on strings would equate canonically
/// equivalent spellings, and two purchases could become one.
public struct Identifier<Subject>: Sendable {
    /// The id as it was given.
    public let rawValue: String

    /// An id of the given text, unchecked; see ``validate()``.
    public init(_ rawValue: String) {
        self.rawValue = rawValue
    }
}

/// The longest id in bytes of UTF-8.
public let maximumIdentifierByteCount = 255

extension Identifier {
    /// Checks that the id has 1 to 255 bytes and no control characters (U+0000–U+001F, U+007F).
    ///
    /// Anything else is allowed, slashes and emoji included.
    ///
    /// - Throws: ``IdentifierError``.
    public func validate() throws(IdentifierError) {
        let count = rawValue.utf8.count
        guard count > 0 else { throw IdentifierError(reason: "an id is not empty") }
        guard count <= maximumIdentifierByteCount else {
            throw IdentifierError(
                reason: "an id has at most \(maximumIdentifierByteCount) bytes, this one has \(count)")
        }
        guard !withBytes({ $0.contains { $0 < 0x20 || $0 == 0x7F } }) else {
            throw IdentifierError(reason: "\"\(rawValue.singleLine)\" has control characters, an id has none")
        }
    }
}

extension Identifier: Hashable, Comparable {
    /// Whether both ids are the same bytes.
    public static func == (left: Identifier, right: Identifier) -> Bool {
        left.compare(with: right) == 0
    }

    /// Whether `left` comes before `right`, byte by byte.
    public static func < (left: Identifier, right: Identifier) -> Bool {
        left.compare(with: right) < 0
    }

    /// Hashes the id's bytes.
    public func hash(into hasher: inout Hasher) {
        withBytes { hasher.combine(bytes: $0) }
        hasher.combine(0xFF as UInt8)
    }

    private func compare(with other: Identifier) -> Int {
        withBytes { bytes in other.withBytes { RecordRun.compare(bytes, $0) } }
    }

    /// Half of the time of a replay goes into ids when they are compared and hashed a byte at a time.
    private func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        var text = rawValue
        return text.withUTF8 { body(UnsafeRawBufferPointer($0)) }
    }
}

extension Identifier: ExpressibleByStringLiteral, CustomStringConvertible {
    /// An id written in source code.
    public init(stringLiteral value: String) { self.init(value) }

    /// The id.
    public var description: String { rawValue }
}

/// A text is not fit to be an id.
public struct IdentifierError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What is wrong with it.
    public let reason: String

    /// One line: what is wrong.
    public var description: String { reason }
}

/// A product that a store sells.
public typealias ProductID = Identifier<Product>
/// A subscription group.
public typealias GroupID = Identifier<ProductKind>
/// Something that content asks for.
public typealias EntitlementID = Identifier<Entitlement>
/// A transaction of a store.
public typealias TransactionID = Identifier<Purchase>
/// A spend of units: a UUID, or the caller's idempotency key.
public typealias SpendID = Identifier<Spend>

extension String {
    /// The text cut to 80 characters with control characters replaced, fit for one line of a message.
    package var singleLine: String {
        let clean = unicodeScalars.prefix(81).map { $0.isControl ? "\u{FFFD}" : $0 }
        var line = UnicodeScalarView()
        line.append(contentsOf: clean.prefix(80))
        return clean.count > 80 ? String(line) + "…" : String(line)
    }
}

extension Unicode.Scalar {
    /// Whether a terminal may do something else with it than show it: C0, delete, C1, and what ends a line.
    fileprivate var isControl: Bool {
        value < 0x20 || (0x7F...0x9F).contains(value) || value == 0x2028 || value == 0x2029
    }
}
