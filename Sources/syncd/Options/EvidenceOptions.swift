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
    @Option(
        help: ArgumentHelp(
            "The trust in what clients report: trusted, or verified, where only evidence grants access (SYNCD_POLICY; "
                + "default: trusted).", valueName: "policy"))
    var policy: String?

    @Option(
        name: .customLong("app-store-bundle"),
        help: ArgumentHelp(
            "Verify the App Store's evidence for this bundle identifier; repeat for others (SYNCD_APP_STORE_BUNDLES, "
                + "separated by spaces).", valueName: "id"))
    var appStoreBundles: [String] = []

    @OptionGroup var trust: AppStoreTrustOptions

    @Option(help: ArgumentHelp("The package name of the app on Google Play (SYNCD_PLAY_PACKAGE).", valueName: "name"))
    var playPackage: String?

    @Option(
        help: ArgumentHelp(
            "A file with the app's licensing key of Google Play, base64 (SYNCD_PLAY_KEY).", valueName: "file"))
    var playKey: String?

    @Option(
        help: ArgumentHelp(
            "The audience of Google Play's push notifications (SYNCD_PLAY_PUSH_AUDIENCE).", valueName: "aud"))
    var playPushAudience: String?

    @Option(
        help: ArgumentHelp(
            "The service account that sends Google Play's push notifications (SYNCD_PLAY_PUSH_ACCOUNT).",
            valueName: "email"))
    var playPushAccount: String?

    @Option(
        help: ArgumentHelp(
            "A file with the signing secrets of Stripe's webhook, one on each line (SYNCD_STRIPE_SECRET_FILE).",
            valueName: "file"))
    var stripeSecretFile: String?

    @Option(
        name: .customLong("stripe-price"),
        help: ArgumentHelp(
            "The product of a price of Stripe, for invoices; repeat for others (SYNCD_STRIPE_PRICES, separated by "
                + "spaces). Stripe sends no prices with a one-time Checkout session, which needs the product in its "
                + "metadata \(StripeVerifier.productKey).", valueName: "price=product"))
    var stripePrices: [String] = []

    /// Adds the options to the configuration of a service.
    func apply(
        to configuration: inout ServiceConfiguration, secrets: SecretOptions, logger: Logger
    ) throws {
        if let text = policy ?? environmentVariable("SYNCD_POLICY") {
            guard let policy = TrustPolicy(rawValue: text) else {
                throw Failure(.usage, "--policy must be trusted or verified, not \"\(text.singleLine)\"")
            }
            configuration.policy = policy
        }
        configuration.evidence.appStore = try appStore()
        configuration.evidence.googlePlay = try googlePlay()
        configuration.evidence.push = try push(logger)
        configuration.evidence.stripe = try stripe(secrets)
        do { try configuration.check() } catch { throw Failure(.usage, "\(error)") }
    }

    private func appStore() throws -> AppStoreVerifier? {
        let fallback = environmentVariable("SYNCD_APP_STORE_BUNDLES")?.split(separator: " ").map(String.init) ?? []
        let bundles = appStoreBundles.isEmpty ? fallback : appStoreBundles
        let appID = try trust.appID()
        guard !bundles.isEmpty else {
            guard appID == nil else { throw Failure(.usage, "--app-store-app-id needs --app-store-bundle") }
            return nil
        }
        return AppStoreVerifier(bundleIDs: Set(bundles), appAppleID: appID, roots: try trust.roots())
    }

    private func googlePlay() throws -> GooglePlayVerifier? {
        let given = (
            playPackage ?? environmentVariable("SYNCD_PLAY_PACKAGE"), playKey ?? environmentVariable("SYNCD_PLAY_KEY")
        )
        switch given {
        case (nil, nil): return nil
        case (let package?, let path?): return try playVerifier(package, keyFile: path)
        default: throw Failure(.usage, "--play-package and --play-key must be passed together")
        }
    }

    private func push(_ logger: Logger) throws(Failure) -> PushTokenVerifier? {
        let given = (
            playPushAudience ?? environmentVariable("SYNCD_PLAY_PUSH_AUDIENCE"),
            playPushAccount ?? environmentVariable("SYNCD_PLAY_PUSH_ACCOUNT")
        )
        switch given {
        case (nil, nil): return nil
        case (let audience?, let account?):
            do throws(TransportError) {
                let keys = ExternalIssuer.KeySource.url("https://www.googleapis.com/oauth2/v3/certs", try CurlClient())
                return PushTokenVerifier(
                    ExternalIssuer(name: "https://accounts.google.com", audience: audience, keys: keys),
                    account: account, onError: { logger.error("\($0)") })
            } catch {
                throw Failure(.failed, "--play-push-audience: \(error.message)")
            }
        default: throw Failure(.usage, "--play-push-audience and --play-push-account must be passed together")
        }
    }

    private func stripe(_ secrets: SecretOptions) throws -> StripeVerifier? {
        let products = try productsByPrice()
        guard let path = stripeSecretFile ?? environmentVariable("SYNCD_STRIPE_SECRET_FILE") else {
            guard products.isEmpty else { throw Failure(.usage, "--stripe-price needs --stripe-secret-file") }
            return nil
        }
        try secrets.check(path, option: "--stripe-secret-file")
        let text = try readDocument(path) { String(decoding: $0, as: UTF8.self) }
        let lines = text.split(whereSeparator: \.isNewline).map { $0.trimmingCharacters(in: .whitespaces) }
        guard !lines.isEmpty, lines.allSatisfy({ $0.hasPrefix("whsec_") }) else {
            throw Failure(.usage, "\(path.singleLine): each line must be a signing secret that begins with whsec_")
        }
        return StripeVerifier(secrets: lines, productsByPrice: products)
    }

    private func productsByPrice() throws(Failure) -> [String: ProductID] {
        let fallback = environmentVariable("SYNCD_STRIPE_PRICES")?.split(separator: " ").map(String.init) ?? []
        var products: [String: ProductID] = [:]
        for text in stripePrices.isEmpty ? fallback : stripePrices {
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
    let bytes = try readDocument(path) { Array($0) }
    do throws(EvidenceError) { return try EvidenceRoots(pem: bytes) } catch {
        throw Failure(.usage, "--evidence-root: \(path.singleLine): \(error.reason)")
    }
}
