public import Entitlements
public import SyncCore

/// The merge of ledger documents, for a `SyncEngine`.
public struct LedgerMerge: DocumentMerge {
    /// Creates the merge.
    public init() {}

    /// A ledger without records.
    public var empty: Ledger { Ledger() }

    /// Decodes a ledger document.
    public func open(_ bytes: [UInt8]) throws(DocumentError) -> OpenDocument<Ledger> {
        do {
            let document = try LedgerDocument(decoding: bytes)
            return OpenDocument(content: document.ledger, localSection: document.localSection)
        } catch {
            throw DocumentError(isNewer: error.kind == .newerFormat, message: "\(error)")
        }
    }

    /// Encodes a ledger document.
    public func close(_ document: OpenDocument<Ledger>) -> [UInt8] {
        LedgerDocument(ledger: document.content, localSection: document.localSection).encoded()
    }

    /// The union of both ledgers.
    public func join(_ left: Ledger, _ right: Ledger) -> Joined<Ledger> {
        let join = Ledger.join(left, right)
        return Joined(content: join.ledger, leftLacks: join.leftLacks, rightLacks: join.rightLacks)
    }

    /// The checksum and the size of the ledger's records.
    public func digest(of content: Ledger) -> [UInt8] {
        LedgerDocument(ledger: content).contentDigest
    }
}
