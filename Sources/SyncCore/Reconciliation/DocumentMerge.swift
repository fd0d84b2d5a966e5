/// The operations that the engine needs on the documents it syncs: opening, joining and closing them.
///
/// `join` is a join in the mathematical sense: commutative, associative and idempotent. All guarantees of the
/// reconciler depend on that; the `JoinLaws` of `SyncCoreTesting` check it. A join must not depend on a clock or on
/// configuration, or two replicas with different settings would rewrite each other's documents for ever.
public protocol DocumentMerge: Sendable {
    /// The content of an open document.
    associatedtype Content: Sendable

    /// The content of a document that does not exist.
    var empty: Content { get }

    /// Opens a document completely or not at all.
    ///
    /// - Throws: ``DocumentError`` if the bytes are damaged or of a later version.
    func open(_ bytes: [UInt8]) throws(DocumentError) -> OpenDocument<Content>

    /// Returns the bytes of the document. Equal content with an equal local section gives equal bytes.
    func close(_ document: OpenDocument<Content>) -> [UInt8]

    /// Returns the union of both.
    func join(_ left: Content, _ right: Content) -> Joined<Content>

    /// Returns a digest of the content: equal for equal content, and different for different content except by
    /// accident.
    func digest(of content: Content) -> [UInt8]
}

/// The content of a document, and a section that belongs to the store that holds it.
public struct OpenDocument<Content: Sendable>: Sendable {
    /// The part that is joined and sent.
    public var content: Content
    /// Bytes that belong to the holder. Joins ignore them, they are never sent to a remote, and any writer may drop
    /// them.
    public var localSection: [UInt8]

    /// Creates a document from its parts.
    public init(content: Content, localSection: [UInt8] = []) {
        self.content = content
        self.localSection = localSection
    }
}

/// A document as a store holds it.
package struct HeldDocument<Content: Sendable>: Sendable {
    /// The version of the entry; `nil` if there is none.
    package var version: EntryVersion?
    /// The content of the entry, or an empty document.
    package var document: OpenDocument<Content>

    package init(version: EntryVersion?, document: OpenDocument<Content>) {
        (self.version, self.document) = (version, document)
    }
}

/// The result of joining two documents.
public struct Joined<Content: Sendable>: Sendable {
    /// The union.
    public var content: Content
    /// True if the union contains something that the left side lacks.
    public var leftLacks: Bool
    /// True if the union contains something that the right side lacks.
    public var rightLacks: Bool

    /// Creates the result of a join.
    public init(content: Content, leftLacks: Bool, rightLacks: Bool) {
        self.content = content
        self.leftLacks = leftLacks
        self.rightLacks = rightLacks
    }
}

/// An error for a document that cannot be opened. No part of it was used.
public struct DocumentError: Error, Sendable, CustomStringConvertible {
    /// True if a later version of the software wrote the document.
    public let isNewer: Bool
    /// One line: what is wrong, and where.
    public let message: String

    /// Creates an error.
    public init(isNewer: Bool, message: String) {
        self.isNewer = isNewer
        self.message = message
    }

    /// The message.
    public var description: String { message }
}
