package import Entitlements
package import HTTPTypes
package import StoreEvidence
import SyncProtocol

/// The body of `POST /v1/transactions`: evidence that a device sends.
package struct EvidenceRequest: Sendable {
    /// One piece of evidence.
    package struct Item: Sendable {
        package var kind: EvidenceKind
        /// The members of the item that are texts.
        var texts: [String: String]
    }

    /// The pieces; an error in the place of one that cannot be read.
    package var items: [Result<Item, EvidenceError>]
    /// True for an explicit restore by the user.
    package var isRestore: Bool
    /// The account that the sender means, if it states one: a device may have switched accounts in the meantime.
    package var account: (name: String, incarnation: String)?

    /// The longest body, in bytes: a receipt of 1 MiB in base64, and some transactions.
    static let maximumByteCount = 2 << 20
    /// The number of pieces of evidence in one request.
    static let itemCounts = 1...32

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
            throw RequestError(.badRequest, "\"evidence\" must have 1 to 32 items, not \(elements.count)")
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
            do throws(EvidenceError) { return .success(try Item(element)) } catch { return .failure(error) }
        }
    }
}

extension EvidenceRequest.Item {
    private static let kinds: [EvidenceKind] = [.appStoreTransaction, .appStoreRenewal, .appStoreReceipt, .googlePlay]

    fileprivate init(_ value: JSON) throws(EvidenceError) {
        guard let members = value.members, let name = members["kind"]?.string else {
            throw EvidenceError(.format, "an item must be an object with the text \"kind\"")
        }
        guard let kind = EvidenceKind(rawValue: name), Self.kinds.contains(kind) else {
            let known = Self.kinds.map(\.rawValue).joined(separator: ", ")
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

/// The answer to one piece of evidence.
package enum EvidenceResult: Sendable {
    /// The facts that count for the caller, and the transactions or lines that belong to other accounts.
    case facts([Fact], others: [TransactionReference])
    case refused(EvidenceError)
    case notConfigured(EvidenceKind)
    case ownedByAnother(detail: String)
    case full
    /// The problem with which another server has answered.
    case problem(code: String, detail: String)

    /// The object in the answer.
    package var json: JSON {
        switch self {
        case .facts(let facts, let others):
            let rest = others.isEmpty ? [] : [("ownedByAnother", JSON.array(others.map { .object($0.members) }))]
            return .object([("facts", .array(facts.map(\.json)))] + rest)
        case .refused(let error):
            return problem(
                "evidence-refused", .unprocessableContent, error.reason, [("check", .string(error.check.rawValue))])
        case .notConfigured(let kind):
            return problem(
                "not-configured", .notImplemented, "this server does not accept evidence of the kind \(kind.rawValue)")
        case .ownedByAnother(let detail): return problem("owned-by-another", .conflict, detail)
        case .full:
            return problem(
                "ledger-full", .contentTooLarge, "the account has reached the largest number of purchases")
        case .problem(let code, let detail):
            return problem(code, .unprocessableContent, detail)
        }
    }

    private func problem(
        _ code: String, _ status: HTTPResponse.Status, _ detail: String, _ members: [(String, JSON)] = []
    ) -> JSON {
        .object([
            (
                "problem",
                .object(
                    [
                        ("type", .string("urn:entitlementsync:problem:\(code)")), ("title", .string(code)),
                        ("status", .number(Int64(status.code))), ("code", .string(code)), ("detail", .string(detail)),
                    ] + members)
            )
        ])
    }
}
