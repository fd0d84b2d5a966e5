/// A password hash by bcrypt, as another system made it. The account keeps it until the first log-in, which replaces it
/// with one by scrypt.
package struct BcryptHash: Hashable, Sendable {
    /// The costs that are accepted: base-2 logarithms of the number of rounds. A cost of 14 takes about 0.7 seconds.
    package static let costs = 4...14
    /// The number of bytes of a password that bcrypt reads. It ignores the others.
    package static let passwordByteCount = 72

    /// The cost.
    package let cost: Int
    /// The salt in bcrypt's base64: 22 characters.
    package let salt: String
    /// The hash in bcrypt's base64: 31 characters.
    package let digest: String

    /// The reason for which a text is not an accepted hash.
    package struct Objection: Error, Hashable, Sendable, CustomStringConvertible {
        /// One line, without the hash.
        package var description: String
    }

    /// Returns `true` if `text` has the prefix of a hash by bcrypt.
    package static func isMarked(_ text: String) -> Bool { text.utf8.starts(with: "$2".utf8) }

    /// Reads a hash: `$2a$`, `$2b$` or `$2y$`, the cost, salt and hash.
    ///
    /// - Throws: ``Objection`` for any other text, and for a cost outside ``costs``.
    package init(_ text: String) throws(Objection) {
        let parts = text.split(separator: "$", omittingEmptySubsequences: false)
        guard text.utf8.count == 60, parts.count == 4, parts[0].isEmpty, ["2a", "2b", "2y"].contains(parts[1]),
            parts[2].utf8.count == 2, let cost = Int(parts[2]), parts[3].utf8.count == 53,
            parts[3].utf8.allSatisfy({ $0.isASCIIAlphanumeric(or: "./") })
        else {
            throw Objection(description: "the password hash must be bcrypt's: $2a$, $2b$ or $2y$ with 60 characters")
        }
        guard Self.costs.contains(cost) else {
            throw Objection(
                description: "the cost of the password hash must be \(Self.costs.lowerBound) to "
                    + "\(Self.costs.upperBound), not \(cost)")
        }
        (self.cost, salt, digest) = (cost, String(parts[3].prefix(22)), String(parts[3].dropFirst(22)))
    }
}
