import ArgumentParser
import CurlTransport
import Entitlements
import Foundation
import StoreEvidence
import SyncCore
import SyncProtocol
import SyncServer
import SyncService

/// The access to Google Play's API.
struct PlayAPIOptions: ParsableArguments {
    static let title = "Google Play API options"

    @Option(help: .setting("play-service-account")) var playServiceAccount: String?
    @Option(help: .setting("play-api")) var playAPI: String?

    /// The retries of a server, whose notification Google sends again.
    private static let briefRetries = RetryPolicy(
        maximumAttempts: 3, firstDelay: .milliseconds(200), maximumDelay: .seconds(1), maximumTotalDelay: .seconds(2))

    var path: String? { playServiceAccount ?? environmentVariable("SYNCD_PLAY_SERVICE_ACCOUNT") }

    /// Sets the look-up of a server's configuration, if a service account is given.
    func apply(to configuration: inout ServiceConfiguration, package: String?, secrets: SecretOptions) throws {
        guard let path else {
            guard playAPI == nil else { throw Failure.needs("play-api", "play-service-account") }
            return
        }
        guard let package, configuration.evidence.googlePlay != nil else {
            throw Failure.needs("play-service-account", "play-package", "play-key")
        }
        configuration.evidence.lookup = try client(path, package, secrets, retries: Self.briefRetries)
    }

    /// The client for the app `package` with the service account at `path`.
    func client(
        _ path: String, _ package: String, _ secrets: SecretOptions,
        retries: RetryPolicy = AppStoreServerClient.defaultRetries
    ) throws -> GooglePlayClient {
        try secrets.check(path, of: "play-service-account")
        let url = playAPI ?? environmentVariable("SYNCD_PLAY_API") ?? GooglePlayClient.productionURL
        return try reading("play-service-account") {
            let (json, transport) = (try readDocument(path) { $0 }, try CurlClient())
            do throws(StoreAPIError) {
                return try GooglePlayClient(
                    serviceAccountJSON: json, packageName: package, baseURL: url, transport: transport,
                    retries: retries)
            } catch {
                throw Failure(.usage, "--play-service-account: \(path.singleLine): \(error.message)")
            }
        }
    }
}

/// The access to the App Store Server API.
struct AppStoreAPIOptions: ParsableArguments {
    static let title = "App Store API options"

    @Option(
        help: ArgumentHelp(
            "The in-app purchase key of App Store Connect, a .p8 file (SYNCD_APP_STORE_KEY).", valueName: "file"))
    var appStoreKey: String?

    @Option(help: ArgumentHelp("The ID of the key (SYNCD_APP_STORE_KEY_ID).", valueName: "id"))
    var appStoreKeyID: String?

    @Option(help: ArgumentHelp("The issuer ID of App Store Connect (SYNCD_APP_STORE_ISSUER).", valueName: "id"))
    var appStoreIssuer: String?

    @Option(
        help: ArgumentHelp(
            "The bundle identifier of the app, or BUNDLE=APPID (SYNCD_APP_STORE_BUNDLES, if it names one only).",
            valueName: "id"))
    var appStoreBundle: String?

    @OptionGroup var trust: AppStoreTrustOptions

    @Option(
        help: ArgumentHelp(
            "The base URL of the API, for tests (SYNCD_APP_STORE_API; default: Apple's, for production).",
            valueName: "url"))
    var appStoreAPI: String?

    @Flag(help: "Read the history of Apple's sandbox, which has 30 days, instead of production, which has 180.")
    var sandbox = false

    /// A client of the API, and the verifier of its answers.
    struct Access {
        var client: AppStoreServerClient
        var verifier: AppStoreVerifier
    }

    /// Returns the access; `nil` if no key is given.
    func access(_ secrets: SecretOptions) throws -> Access? {
        guard let path = appStoreKey ?? environmentVariable("SYNCD_APP_STORE_KEY") else {
            let given = [
                ("app-store-key-id", appStoreKeyID), ("app-store-issuer", appStoreIssuer),
                ("app-store-bundle", appStoreBundle), ("app-store-app-id", trust.appStoreAppID),
                ("app-store-api", appStoreAPI), ("sandbox", sandbox ? "" : nil),
            ]
            if let option = given.first(where: { $0.1 != nil })?.0 { throw Failure.needs(option, "app-store-key") }
            return nil
        }
        guard let id = appStoreKeyID ?? environmentVariable("SYNCD_APP_STORE_KEY_ID"),
            let issuer = appStoreIssuer ?? environmentVariable("SYNCD_APP_STORE_ISSUER")
        else { throw Failure.needs("app-store-key", "app-store-key-id", "app-store-issuer") }
        let (bundle, appID) = try app()
        try secrets.check(path, of: "app-store-key")
        let key = try readText(path)
        let roots = try trust.roots()
        do {
            let client = try AppStoreServerClient(
                issuerID: issuer, keyID: id, bundleID: bundle, privateKey: key, baseURL: try baseURL(),
                transport: try CurlClient())
            guard client.historyDays < 180 || appID != nil else {
                throw Failure(.usage, "--app-store-app-id is required: notifications of production name the app by it")
            }
            return Access(
                client: client, verifier: AppStoreVerifier(bundleIDs: [bundle], appAppleID: appID, roots: roots))
        } catch let error as StoreAPIError {
            throw Failure(.usage, error.message)
        } catch let error as TransportError {
            throw Failure(.failed, "--app-store-key: \(error.message)")
        }
    }

    /// The bundle identifier of the app, and Apple's id of it, which may be among those of a server with several apps.
    private func app() throws(Failure) -> (bundle: String, id: Int64?) {
        let texts = environmentVariable("SYNCD_APP_STORE_BUNDLES")?.split(separator: " ").map(String.init) ?? []
        let apps = try AppStoreApps(appStoreBundle.map { $0.isEmpty ? [] : [$0] } ?? texts).appIDs
        guard apps.count == 1, let (bundle, id) = apps.first else {
            throw Failure(.usage, "--app-store-key needs --app-store-bundle, the app whose history is read")
        }
        let stated: Int64? = if let id { id } else { try AppStoreApps(texts).appIDs[bundle] ?? nil }
        if let stated, trust.appStoreAppID == nil { return (bundle, stated) }
        // An id that is passed as well must agree.
        let text = bundle + (stated.map { "=\($0)" } ?? "")
        return (bundle, try AppStoreApps([text], appID: try trust.appID()).appIDs[bundle] ?? nil)
    }

    private func baseURL() throws(Failure) -> String {
        if sandbox, appStoreAPI != nil { throw Failure.exclude("sandbox", "app-store-api") }
        if sandbox { return AppStoreServerClient.sandboxURL }
        return appStoreAPI ?? environmentVariable("SYNCD_APP_STORE_API") ?? AppStoreServerClient.productionURL
    }
}
