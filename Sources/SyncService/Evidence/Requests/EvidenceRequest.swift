package import Entitlements
package import HTTPTypes
package import StoreEvidence
import SyncProtocol

/// The body of `POST /v1/transactions`: what a client wants to record.
package struct EvidenceRequest: Sendable {
    /// One item; an error in the place of one that cannot be read.
    package enum Item: Sendable {
        case signed(Result<SignedItem, EvidenceError>)
        case reported(Result<ReportedItem, RecordingError>)
    }

    /// Evidence that a store has signed.
    package struct SignedItem: Sendable {
        package var kind: EvidenceKind
        /// The members of the item that are texts.
        var texts: [String: String]
    }

    package var items: [Item]
    /// True for an explicit restore by the user.
    package var isRestore: Bool
    /// The account that the sender means, if it states one: a device may have switched accounts in the meantime.
    package var account: (name: String, incarnation: String)?

    /// The longest body, in bytes: a receipt of 1 MiB in base64, and some transactions.
    static let maximumByteCount = 2 << 20
    /// The number of items in one request.
    static let itemCounts = 1...100

    /// Reads a body.
    ///
    /// - Throws: ``RequestError`` for a body that is too long or malformed.
    package init(_ body: [UInt8], _ fields: HTTPFields) throws(RequestError) {
        guard body.count <= Self.maximumByteCount else {
            throw RequestError(.contentTooLarge, "the body must have at most \(Self.maximumByteCount) bytes")
        }
        try fields.checkJSON()
        let value: JSON
        do throws(InputError) { value = try JSON(parsing: body) } catch {
            throw RequestError(.badRequest, "the body must be a JSON object: \(error)")
        }
        guard let elements = value["evidence"]?.elements else {
            throw RequestError(.badRequest, "the body must be a JSON object with the array \"evidence\"")
        }
        guard Self.itemCounts.contains(elements.count) else {
            throw RequestError(.badRequest, "\"evidence\" must have 1 to 100 items, not \(elements.count)")
        }
        switch value["restore"] {
        case nil: isRestore = false
        case .bool(let flag): isRestore = flag
        case let other?: throw RequestError(.badRequest, "\"restore\" must be true or false, not \(other.typeName)")
        }
        if let owner = value["account"] {
            guard case .object = owner else {
                throw RequestError(.badRequest, "\"account\" must be an object, not \(owner.typeName)")
            }
            guard let name = owner["name"]?.string, let incarnation = owner["incarnation"]?.string else {
                throw RequestError(.badRequest, "\"account\" must have the texts \"name\" and \"incarnation\"")
            }
            account = (name, incarnation)
        }
        items = elements.map { element in
            if let kind = element["kind"]?.string.flatMap(ReportedItem.Kind.init) {
                do throws(RecordingError) { return .reported(.success(try ReportedItem(kind, element))) } catch {
                    return .reported(.failure(error))
                }
            }
            do throws(EvidenceError) { return .signed(.success(try SignedItem(element))) } catch {
                return .signed(.failure(error))
            }
        }
    }
}

extension EvidenceRequest.SignedItem {
    private static let kinds: [EvidenceKind] = [.appStoreTransaction, .appStoreRenewal, .appStoreReceipt, .googlePlay]

    fileprivate init(_ value: JSON) throws(EvidenceError) {
        guard let members = value.members, let name = members["kind"]?.string else {
            throw EvidenceError(.format, "an item must be an object with the text \"kind\"")
        }
        guard let kind = EvidenceKind(rawValue: name), Self.kinds.contains(kind) else {
            let names = Self.kinds.map(\.rawValue) + ReportedItem.Kind.allCases.map(\.rawValue)
            let known = names.joined(separator: ", ")
            throw EvidenceError(.kind, "kind must be one of \(known), not \"\(name.singleLine)\"")
        }
        self.kind = kind
        texts = members.compactMapValues(\.string)
    }

    /// The text member called `name`.
    package func text(_ name: String) throws(EvidenceError) -> String {
        guard let text = texts[name] else {
            throw EvidenceError(.format, "evidence of the kind \(kind.rawValue) needs the text \"\(name)\"")
        }
        return text
    }

    /// Verifies the evidence.
    ///
    /// - Returns: `nil` if the server has no verifier for its kind.
    func verified(by configuration: EvidenceConfiguration, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence? {
        switch kind {
        case .appStoreTransaction:
            let jws = try text("jws")
            return try configuration.appStore?.transaction(jws, now: now)
        case .appStoreRenewal:
            let jws = try text("jws")
            return try configuration.appStore?.renewal(jws, now: now)
        case .appStoreReceipt:
            let bytes = try receiptBytes(base64: try text("data"))
            return try configuration.appStore?.receipt(bytes, now: now, deviceID: nil)
        default:
            let (data, signature) = (try text("data"), try text("signature"))
            return try configuration.googlePlay?.purchase(data: data, signature: signature, now: now)
        }
    }
}
