import ArgumentParser
import CurlTransport
import Entitlements
import Foundation
import Logging
import StoreEvidence
import SyncProtocol
import SyncServer
import SyncService

/// The trust in clients, and the stores whose evidence the server verifies.
struct EvidenceOptions: ParsableArguments {
    @Option(help: .setting("policy")) var policy: String?

    @Option(name: .customLong("app-store-bundle"), help: .setting("app-store-bundle"))
    var appStoreBundles: [String] = []

    @OptionGroup var trust: AppStoreTrustOptions

    @Option(help: .setting("play-package")) var playPackage: String?
    @Option(help: .setting("play-key")) var playKey: String?
    @Option(help: .setting("play-push-audience")) var playPushAudience: String?
    @Option(help: .setting("play-push-account")) var playPushAccount: String?
    @Option(help: .setting("stripe-secret-file")) var stripeSecretFile: String?
    @Option(name: .customLong("stripe-price"), help: .setting("stripe-price")) var stripePrices: [String] = []

    /// Adds the options to the configuration of a service.
    func apply(to configuration: inout ServiceConfiguration, secrets: SecretOptions, logger: Logger) throws {
        configuration.policy = try Setting.choice(policy, of: "policy") ?? configuration.policy
        configuration.evidence.appStore = try appStore()
        configuration.evidence.googlePlay = try googlePlayVerifier(playPackage, keyFile: playKey)
        configuration.evidence.push = try push(logger)
        configuration.evidence.stripe = try stripe(secrets)
        do { try configuration.check() } catch { throw Failure(.usage, "\(error)", of: ["policy", "catalog"]) }
    }

    private func appStore() throws -> AppStoreVerifier? {
        let appID = try trust.appID()
        guard !appStoreBundles.isEmpty else {
            guard appID == nil else { throw Failure.needs("app-store-app-id", "app-store-bundle") }
            return nil
        }
        return try AppStoreApps(appStoreBundles, appID: appID).verifier(roots: trust.roots())
    }

    private func push(_ logger: Logger) throws(Failure) -> PushTokenVerifier? {
        let values = [("play-push-audience", playPushAudience), ("play-push-account", playPushAccount)]
        guard let values = try together(values) else { return nil }
        let client = try reading("play-push-audience") { try CurlClient() }
        let keys = ExternalIssuer.KeySource.url("https://www.googleapis.com/oauth2/v3/certs", client)
        return PushTokenVerifier(
            ExternalIssuer(name: "https://accounts.google.com", audience: values[0], keys: keys),
            account: values[1], onError: { logger.error("\($0)") })
    }

    private func stripe(_ secrets: SecretOptions) throws -> StripeVerifier? {
        let products = try productsByPrice()
        guard let path = stripeSecretFile else {
            guard products.isEmpty else { throw Failure.needs("stripe-price", "stripe-secret-file") }
            return nil
        }
        try secrets.check(path, of: "stripe-secret-file")
        return try reading("stripe-secret-file") {
            let lines = try readText(path).split(whereSeparator: \.isNewline).map {
                $0.trimmingCharacters(in: .whitespaces)
            }
            guard !lines.isEmpty, lines.allSatisfy({ $0.hasPrefix("whsec_") }) else {
                throw Failure(.usage, "\(path.singleLine): each line must be a signing secret that begins with whsec_")
            }
            return StripeVerifier(secrets: lines, productsByPrice: products)
        }
    }

    private func productsByPrice() throws(Failure) -> [String: ProductID] {
        var products: [String: ProductID] = [:]
        try reading("stripe-price", each: stripePrices) { text in
            let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[0].isEmpty else {
                throw Failure(
                    .usage,
                    "--stripe-price must be PRICE=PRODUCT, as price_1Owl=owl.monthly, not \"\(text.singleLine)\"")
            }
            let product = ProductID(String(parts[1]))
            do throws(IdentifierError) { try product.validate() } catch {
                throw Failure(.usage, "--stripe-price \"\(text.singleLine)\": the product is invalid: \(error)")
            }
            guard products.updateValue(product, forKey: String(parts[0])) == nil else {
                throw Failure(.usage, "--stripe-price: \"\(String(parts[0]).singleLine)\" is passed twice")
            }
        }
        return products
    }
}

/// The root certificates in the file at `path`, or the pinned ones.
func evidenceRoots(_ path: String?) throws -> EvidenceRoots {
    guard let path else { return .pinned }
    return try reading("evidence-root") {
        let bytes = try readDocument(path) { $0 }
        do throws(EvidenceError) { return try EvidenceRoots(pem: bytes) } catch {
            throw Failure(.usage, "--evidence-root: \(path.singleLine): \(error.reason)")
        }
    }
}
