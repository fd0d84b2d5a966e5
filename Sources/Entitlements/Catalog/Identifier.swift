/// An id assigned by a store, a catalogue or an app.
///
/// The `Subject` parameter makes ids of different things different types.
///
/// Ids are compared, hashed and ordered by the bytes of their UTF-8. The `==` operator of Swift strings would equate
/// canonically equivalent spellings, and two purchases could be treated as one.
public struct Identifier<Subject>: Sendable {
    /// The text of the id.
    public let rawValue: String

    /// Creates an id without validation; see ``validate()``.
    public init(_ rawValue: String) {
        self.rawValue = rawValue
    }
}

/// The maximum length of an id, in bytes of UTF-8.
package let maximumIdentifierByteCount = 255

extension Identifier {
    /// Checks that the id has 1 to 255 bytes and no control characters (U+0000–U+001F, U+007F).
    ///
    /// All other characters are allowed, including slashes and emoji.
    ///
    /// - Throws: ``IdentifierError`` with the reason.
    public func validate() throws(IdentifierError) {
        let count = rawValue.utf8.count
        guard count > 0 else { throw IdentifierError(reason: "an id must not be empty") }
        guard count <= maximumIdentifierByteCount else {
            throw IdentifierError(
                reason: "an id must have at most \(maximumIdentifierByteCount) bytes, not \(count)")
        }
        // Without an early exit, the loop takes several bytes at a time.
        guard withBytes({ $0.reduce(true) { $0 && $1 >= 0x20 && $1 != 0x7F } }) else {
            throw IdentifierError(
                reason: "\"\(rawValue.singleLine)\" contains control characters, which an id must not")
        }
    }
}

extension GroupID {
    /// The id before the last `@` and the text after it, as in `selfies@1`; `nil` without an `@`.
    var parts: (group: GroupID, suffix: String)? {
        // By scalars, because a mark after the `@` would combine with it.
        let scalars = rawValue.unicodeScalars
        guard let sign = scalars.lastIndex(of: "@") else { return nil }
        return (GroupID(String(scalars[..<sign])), String(scalars[scalars.index(after: sign)...]))
    }
}

extension Identifier: Hashable, Comparable {
    /// Returns `true` if both ids consist of the same bytes.
    public static func == (left: Identifier, right: Identifier) -> Bool {
        left.compare(with: right) == 0
    }

    /// Orders ids byte by byte.
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

    /// Comparing and hashing ids byte by byte would take about half of the time of a replay.
    private func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        var text = rawValue
        return text.withUTF8 { body(UnsafeRawBufferPointer($0)) }
    }
}

extension Identifier: ExpressibleByStringLiteral, CustomStringConvertible {
    /// Creates an id from a string literal, without validation.
    public init(stringLiteral value: String) { self.init(value) }

    /// The text of the id.
    public var description: String { rawValue }
}

/// An error that is thrown when a text is not a valid id.
public struct IdentifierError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason for the error.
    public let reason: String

    /// The reason for the error, on one line.
    public var description: String { reason }
}

/// The id of a product.
public typealias ProductID = Identifier<Product>
/// The id of a group of subscriptions.
public typealias GroupID = Identifier<ProductKind>
/// The id of an entitlement.
public typealias EntitlementID = Identifier<Entitlement>
/// The name of an offering of a catalogue.
public typealias OfferingID = Identifier<Offering>
/// The id of a transaction within a store and environment.
public typealias TransactionID = Identifier<Purchase>
/// The id of a spend: a UUID or the caller's idempotency key.
public typealias SpendID = Identifier<Spend>

extension String {
    /// The text, truncated to 80 characters and with control characters replaced, for a one-line message.
    package var singleLine: String { singleLine(atMost: 80) }

    /// The text, truncated to `count` characters and with control characters replaced, for a one-line message.
    package func singleLine(atMost count: Int) -> String {
        let clean = unicodeScalars.prefix(count + 1).map { $0.isControl ? "\u{FFFD}" : $0 }
        var line = UnicodeScalarView()
        line.append(contentsOf: clean.prefix(count))
        return clean.count > count ? String(line) + "…" : String(line)
    }
}

extension Unicode.Scalar {
    /// True if a terminal may interpret the character: C0 and C1 controls, delete, and line separators.
    fileprivate var isControl: Bool {
        value < 0x20 || (0x7F...0x9F).contains(value) || value == 0x2028 || value == 0x2029
    }
}
