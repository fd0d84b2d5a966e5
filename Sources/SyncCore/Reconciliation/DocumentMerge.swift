/// What the engine must know of the documents it syncs: how to open, join and close them. Bytes stay bytes.
///
/// `join` is a join in the mathematical sense: commutative, associative and idempotent. Everything the reconciler
/// promises rests on that; the join-law checker of `SyncCoreTesting` tries it. It looks at no clock and no
/// configuration, or two replicas with different ones would rewrite each other for ever.
public protocol DocumentMerge: Sendable {
    /// An open document's content.
    associatedtype Content: Sendable

    /// The content of a document that does not exist.
    var empty: Content { get }

    /// Opens a document, all of it or nothing.
    ///
    /// - Throws: ``DocumentError`` when the bytes are damaged or of a later version.
    func open(_ bytes: [UInt8]) throws(DocumentError) -> OpenDocument<Content>

    /// The document's bytes. Equal content with an equal local section gives equal bytes.
    func close(_ document: OpenDocument<Content>) -> [UInt8]

    /// The union of both.
    func join(_ left: Content, _ right: Content) -> Joined<Content>

    /// Names content: equal for equal content, and different (but for accidents) for different content.
    func digest(of content: Content) -> [UInt8]
}

/// A document's content, and the section of it that belongs to the store that holds it.
public struct OpenDocument<Content: Sendable>: Sendable {
    /// What is joined and sent.
    public var content: Content
    /// The holder's own bytes: joining ignores them, they are never sent to a remote, and any writer may drop them.
    public var localSection: [UInt8]

    /// A document of the given parts.
    public init(content: Content, localSection: [UInt8] = []) {
        self.content = content
        self.localSection = localSection
    }
}

/// What joining two documents gave.
public struct Joined<Content: Sendable>: Sendable {
    /// The union.
    public var content: Content
    /// Whether the union has something that the left side lacks.
    public var leftLacks: Bool
    /// Whether the union has something that the right side lacks.
    public var rightLacks: Bool

    /// A union.
    public init(content: Content, leftLacks: Bool, rightLacks: Bool) {
        self.content = content
        self.leftLacks = leftLacks
        self.rightLacks = rightLacks
    }
}

/// A document cannot be opened. Nothing of it was taken.
public struct DocumentError: Error, Sendable, CustomStringConvertible {
    /// Whether a later version of the software wrote it.
    public let isNewer: Bool
    /// What is wrong, and where.
    public let message: String

    /// An error.
    public init(isNewer: Bool, message: String) {
        self.isNewer = isNewer
        self.message = message
    }

    /// The message.
    public var description: String { message }
}
