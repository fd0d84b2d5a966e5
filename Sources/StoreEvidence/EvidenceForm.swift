#if Evidence
import Entitlements

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The forms of evidence, recognized to say what was passed in place of the expected one.
///
/// Nothing is verified here, and only refusals depend on it.
enum EvidenceForm {
    case transaction, renewal, notification
    /// The app transaction of StoreKit 2.
    case appTransaction
    /// The decoded content of a transaction.
    case unsignedTransaction
    /// An app receipt in DER.
    case receipt
    /// An app receipt in base64.
    case encodedReceipt
    /// An app receipt in base64 with the alphabet for URLs.
    case receiptForURLs
    /// An answer of `verifyReceipt`.
    case answer
    /// A transaction receipt of iOS 6.
    case oldReceipt
    /// A receipt of StoreKit Testing in Xcode.
    case xcodeReceipt
    /// A message that StoreKit Testing in Xcode has signed.
    case xcodeMessage

    /// The form of `bytes`; `nil` if it is unknown.
    init?(_ bytes: [UInt8]) {
        guard bytes.count <= 4 * EvidenceLimits.receipt else { return nil }
        let text = bytes.drop(while: isSpace)
        func contains(_ word: String) -> Bool { text.firstRange(of: Array(word.utf8)) != nil }
        if text.first == 0x30, text.dropFirst().first ?? 0 >= 0x80 {
            // The environment, attribute 0, is a text of five bytes.
            self = contains("\u{0C}\u{05}Xcode") ? .xcodeReceipt : .receipt
        } else if contains("purchase-info") {
            self = .oldReceipt
        } else if text.first == UInt8(ascii: "{") {
            let words: [(String, EvidenceForm)] = [
                ("\"signedPayload\"", .notification), ("\"in_app\"", .answer), ("\"latest_receipt", .answer),
                ("\"transactionId\"", .unsignedTransaction),
            ]
            guard let form = words.first(where: { contains($0.0) })?.1 else { return nil }
            self = form
        } else if text.starts(with: "MI".utf8) {
            self = contains("-") || contains("_") ? .receiptForURLs : .encodedReceipt
        } else if let body = Self.body(of: text), let form = Self.form(of: body) {
            self = form
        } else if let inner = Data(base64Encoded: Data(text.filter { !isSpace($0) })), inner.first != 0x30,
            inner.firstRange(of: Data("purchase-info".utf8)) != nil
        {
            self = .oldReceipt
        } else {
            return nil
        }
    }

    /// The body of a JSON web signature, if `text` may be one.
    private static func body(of text: ArraySlice<UInt8>) -> StoreObject? {
        guard text.count <= EvidenceLimits.notification else { return nil }
        let segments = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard segments.count == 3, let bytes = Base64.url.decode(segments[1]) else { return nil }
        return try? StoreObject(parsing: bytes)
    }

    private static func form(of body: StoreObject) -> EvidenceForm? {
        if let name = try? body.string("environment"), ["Xcode", "LocalTesting"].contains(name) {
            return .xcodeMessage
        }
        let forms: [EvidenceForm] = [.notification, .renewal, .transaction, .appTransaction]
        return forms.first { $0.mark.map(body.contains) == true }
    }

    /// The member that tells the body of a signed message from the others.
    private var mark: String? {
        switch self {
        case .transaction: "transactionId"
        case .renewal: "autoRenewStatus"
        case .notification: "notificationType"
        case .appTransaction: "receiptCreationDate"
        default: nil
        }
    }

    /// Throws unless `body` is the body of a signed message of this form.
    func check(_ body: StoreObject) throws(EvidenceError) {
        let others = [EvidenceForm.notification, .renewal, .transaction, .appTransaction].filter { $0 != self }
        if let other = others.first(where: { $0.mark.map(body.contains) == true }) {
            throw EvidenceError(.kind, mismatch(other))
        }
        guard let mark, !body.contains(mark) else { return }
        throw EvidenceError(.kind, "this is not \(name): it has no \(mark)")
    }

    fileprivate func mismatch(_ other: EvidenceForm) -> String {
        "this is not \(name), but \(other.name): \(other.advice)"
    }

    /// True for forms whose evidence Apple signs, so that only the kind was wrong.
    fileprivate var isSigned: Bool {
        switch self {
        case .transaction, .renewal, .notification, .appTransaction, .receipt: true
        default: false
        }
    }

    /// The name with its article.
    fileprivate var name: String {
        switch self {
        case .transaction: "a transaction"
        case .renewal: "a renewal info"
        case .notification: "a notification"
        case .appTransaction: "an app transaction"
        case .unsignedTransaction: "the JSON of a transaction without its signature"
        case .receipt: "an app receipt"
        case .encodedReceipt: "an app receipt in base64"
        case .receiptForURLs: "an app receipt in base64url"
        case .answer: "an answer of verifyReceipt"
        case .oldReceipt: "a transaction receipt of iOS 6 or earlier (a property list with signature and purchase-info)"
        case .xcodeReceipt: "a receipt of Xcode's test environment"
        case .xcodeMessage: "a message of Xcode's test environment"
        }
    }

    /// The name of expected evidence.
    var expectation: String { "the " + name.drop { $0 != " " }.dropFirst() }

    /// The clause that says what to do.
    fileprivate var advice: String {
        switch self {
        case .transaction: "send it as app-store-transaction"
        case .renewal: "send it as app-store-renewal"
        case .notification: "its kind is app-store-notification, and Apple sends it to /v1/notifications/app-store"
        case .appTransaction:
            "it states that the app was bought, not what was bought in it; send the jwsRepresentation of a transaction"
        case .unsignedTransaction: "send its jwsRepresentation"
        case .receipt: "send it as app-store-receipt"
        case .encodedReceipt: "send it as app-store-receipt; AppStoreVerifier takes its decoded bytes"
        case .receiptForURLs: "encode it in base64 with +, / and padding, and send it as app-store-receipt"
        case .answer: "it is not signed; import it with --format verify-receipt"
        case .oldReceipt:
            "Apple no longer answers for it; send the app receipt, or a transaction of StoreKit 2, instead"
        case .xcodeReceipt, .xcodeMessage:
            "Apple does not sign it; buy with a sandbox account instead, or record the purchase without evidence"
        }
    }
}

extension EvidenceError {
    /// The same refusal, which also says what `bytes` are if they are not of the expected form.
    func naming(_ bytes: [UInt8], insteadOf expected: EvidenceForm) -> EvidenceError {
        let checks: Set<Check> = [.size, .format, .header, .signedDate, .certificates]
        guard checks.contains(check), !isTransient, let form = EvidenceForm(bytes), form != expected else {
            return self
        }
        return form.isSigned
            ? EvidenceError(.kind, expected.mismatch(form))
            : EvidenceError(check, "\(reason): this is \(form.name): \(form.advice)")
    }
}

/// Decodes a receipt in base64. White space is ignored.
///
/// - Throws: ``EvidenceError`` that says what `text` is instead.
package func receiptBytes(base64 text: String) throws(EvidenceError) -> [UInt8] {
    guard let bytes = Data(base64Encoded: Data(text.utf8.filter { !isSpace($0) })) else {
        throw EvidenceError(.format, "the receipt must be base64 with padding")
            .naming(Array(text.utf8), insteadOf: .encodedReceipt)
    }
    return Array(bytes)
}

private func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
#endif
