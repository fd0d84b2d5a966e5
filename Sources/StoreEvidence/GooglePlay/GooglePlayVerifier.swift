#if Evidence
internal import Crypto
internal import CryptoExtras
public import Entitlements

/// Verifies purchases of one app on Google Play.
///
/// A transaction is `ORDER/PRODUCT`, and the first order of a subscription gives its line: the renewal
/// `GPA.3345-6789-0123-45678..2/owl.monthly` belongs to the line `GPA.3345-6789-0123-45678/owl.monthly`. The purchase
/// token replaces the order if there is none, as after a promotion code. The order and the token alone are aliases of
/// all purchases that they sold, because refunds name them without a product.
///
/// ```swift
/// let verifier = try GooglePlayVerifier(packageNames: ["com.example.owl"], publicKey: keyFromPlayConsole)
/// let evidence = try verifier.purchase(data: originalJSON, signature: signature, now: now)
/// ```
public struct GooglePlayVerifier: Sendable {
    /// The packages whose purchases are accepted.
    let packageNames: Set<String>
    /// The key of the app; `nil` if signed purchases are not accepted.
    private let key: _RSA.Signing.PublicKey?

    /// Creates a verifier for an app.
    ///
    /// - Parameters:
    ///   - packageNames: The package names of the app.
    ///   - publicKey: The app's RSA key in base64, as the Play Console shows it under "Monetization setup".
    /// - Throws: ``EvidenceError`` with the check `format` if the key is invalid.
    public init(packageNames: Set<String>, publicKey: String) throws(EvidenceError) {
        guard let der = Base64.standard.decode(publicKey.filter { !$0.isWhitespace }.utf8) else {
            throw EvidenceError(
                .format, "the public key is not base64; copy it from the Play Console, under Monetization setup")
        }
        do {
            key = try _RSA.Signing.PublicKey(derRepresentation: der)
        } catch {
            throw EvidenceError(
                .format, "the public key is not an RSA key of at least 2048 bits; copy it from the Play Console")
        }
        self.packageNames = packageNames
    }

    /// Creates a verifier that reads answers of Google's API, and refuses purchases that a device sends.
    ///
    /// - Parameter packageNames: The package names of the app.
    public init(packageNames: Set<String>) { (self.packageNames, key) = (packageNames, nil) }

    /// Verifies the data of a purchase (`Purchase.getOriginalJson()`) and the signature of Google Play.
    ///
    /// The facts are purchases only. The data states neither a refund nor the end of a subscription, and purchases of
    /// licence testers look like any other. The facts are stamped with the purchase time.
    ///
    /// - Parameters:
    ///   - data: The text that Google Play signed, unchanged.
    ///   - signature: The signature in base64.
    ///   - now: The time of this machine.
    /// - Throws: ``EvidenceError`` that names the failed check.
    public func purchase(data: String, signature: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        let bytes = Array(data.utf8)
        try checkSize(bytes.count, limit: EvidenceLimits.transaction, "the purchase data")
        try checkSize(signature.utf8.count, limit: EvidenceLimits.transaction, "the signature")
        guard let code = Base64.standard.decode(signature.utf8) else {
            throw EvidenceError(.format, "the signature of the purchase is not base64")
        }
        guard let key else {
            throw EvidenceError(.signature, "this verifier has no key; configure the licensing key of the app")
        }
        let isValid = key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: code), for: Insecure.SHA1.hash(data: bytes),
            padding: .insecurePKCS1v1_5)
        guard isValid else {
            throw EvidenceError(
                .signature, "the signature does not match; send the text unchanged, and check the key of the app")
        }
        return try purchase(StoreObject(parsing: bytes), now: now)
    }

    private func purchase(_ object: StoreObject, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        try checkPackage(object)
        // Google's library reads a purchase without a state as bought.
        let state = try object.integer("purchaseState") ?? 0
        guard state == 0 else {
            let reason = state == 4 ? "pending; send it again when it is paid" : "not paid"
            throw EvidenceError(.state, "purchaseState must be 0, not \(state): the purchase is \(reason)")
        }
        guard let date = try object.date("purchaseTime", unit: 1) else { throw object.missing("purchaseTime") }
        try checkNotAhead(date, of: now, "purchaseTime")
        let quantity = try object.quantity() ?? 1
        let identity = PlayIdentity(
            order: try object.id("orderId"), purchaseToken: try object.required("purchaseToken"))
        var evidence = VerifiedEvidence(
            kind: .googlePlay, facts: [], signedDate: date,
            accountToken: try object.string("obfuscatedAccountId")?.lowercased())
        for product in try products(of: object) {
            var purchase = try identity.purchase(
                of: product, in: .production, date: date, stamp: .signed(at: date), addingAliasesTo: &evidence)
            purchase.quantity = quantity
            evidence.facts.append(.purchase(purchase))
        }
        evidence.subscription = try PlayIdentity(order: nil, purchaseToken: identity.purchaseToken).name()
        evidence.playPurchase = PlayPurchase(
            packageName: try object.required("packageName"), purchaseToken: identity.purchaseToken,
            isAcknowledged: try object.bool("acknowledged"))
        return evidence
    }

    /// Returns the distinct products, in ascending order.
    private func products(of object: StoreObject) throws(EvidenceError) -> [ProductID] {
        var names = Set(try object.strings("productIds"))
        if names.isEmpty { names = [try object.required("productId")] }
        var products: [ProductID] = []
        for name in names { products.append(try ProductID(name).checked("productId")) }
        return products.sorted()
    }

    /// Checks that `object` is about a package of the app.
    func checkPackage(_ object: StoreObject) throws(EvidenceError) {
        let name = try object.required("packageName")
        guard packageNames.contains(name) else {
            let expected = packageNames.sorted().joined(separator: ", ")
            throw EvidenceError(.app, "packageName must be \(expected), not \"\(name.singleLine)\"")
        }
    }
}
#endif
