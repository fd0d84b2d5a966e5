import ArgumentParser
import Entitlements
import Foundation
import StoreEvidence

/// The app whose App Store evidence is accepted, and the certificates that sign it.
struct AppStoreOptions: ParsableArguments {
    @Option(help: ArgumentHelp("A bundle identifier of the app; repeat for others.", valueName: "id"))
    var bundle: [String] = []

    @Option(help: ArgumentHelp("Root certificates (PEM) instead of Apple's.", valueName: "file"))
    var evidenceRoot: String?

    /// Throws unless a bundle identifier was passed.
    func requireBundle(for name: String) throws(Failure) {
        guard bundle.isEmpty || bundle.contains("") else { return }
        throw Failure(.usage, "\(name) needs --bundle, the app's bundle identifier")
    }

    /// The verifier of evidence of `environment`.
    func verifier(of environment: EnvironmentID) throws -> AppStoreVerifier {
        AppStoreVerifier(bundleIDs: Set(bundle), environments: [environment], roots: try evidenceRoots(evidenceRoot))
    }
}

/// The apps of the App Store whose evidence a server accepts, from the values of `--app-store-bundle`.
struct AppStoreApps {
    /// Apple's ids of the apps, by bundle identifier; `nil` for an app whose id is unknown.
    let appIDs: [String: Int64?]

    /// Reads texts of the form `BUNDLE` or `BUNDLE=APPID`.
    ///
    /// - Parameter appID: The value of `--app-store-app-id`, which is the id of the only app.
    init(_ texts: [String], appID: Int64? = nil) throws(Failure) {
        var appIDs: [String: Int64?] = [:]
        try reading("app-store-bundle", each: texts) { text in
            let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let id = parts.count == 2 ? Int64(parts[1]) : nil
            guard !parts[0].isEmpty, parts.count == 1 || id ?? 0 > 0 else {
                throw Failure(
                    .usage,
                    "--app-store-bundle must be BUNDLE or BUNDLE=APPID, as com.example.app=1234567890, not "
                        + "\"\(text.singleLine)\"")
            }
            if let known = appIDs[parts[0]] ?? nil, let id, known != id {
                throw Failure(
                    .usage, "--app-store-bundle \"\(text.singleLine)\": the app is passed twice, also with \(known)")
            }
            appIDs.updateValue(id ?? (appIDs[parts[0]] ?? nil), forKey: parts[0])
        }
        if let appID {
            guard appIDs.count == 1, let bundle = appIDs.keys.first else {
                throw Failure(
                    .usage,
                    "--app-store-app-id is the id of one app, but there are \(appIDs.count): pass --app-store-bundle "
                        + "BUNDLE=APPID for each", of: ["app-store-app-id", "app-store-bundle"])
            }
            if let known = appIDs[bundle] ?? nil, known != appID {
                throw Failure(
                    .usage, "--app-store-app-id must be \(known), as --app-store-bundle has it, not \(appID)",
                    of: ["app-store-app-id", "app-store-bundle"])
            }
            appIDs.updateValue(appID, forKey: bundle)
        }
        self.appIDs = appIDs
    }

    /// The verifier of evidence about these apps.
    func verifier(
        of environments: Set<EnvironmentID> = [.production, .sandbox], roots: EvidenceRoots
    ) -> AppStoreVerifier {
        AppStoreVerifier(
            bundleIDs: Set(appIDs.keys), appAppleIDs: appIDs.compactMapValues(\.self), environments: environments,
            roots: roots)
    }
}

/// The app whose purchases of Google Play are accepted.
struct GooglePlayOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The package name of the app on Google Play.", valueName: "name"))
    var playPackage: String?

    @Option(help: ArgumentHelp("A file with the app's licensing key of Google Play, base64.", valueName: "file"))
    var playKey: String?

    var isEmpty: Bool { playPackage == nil && playKey == nil }

    func verifier() throws -> GooglePlayVerifier {
        guard let playPackage, let playKey, let verifier = try googlePlayVerifier(playPackage, keyFile: playKey) else {
            throw Failure(.usage, "the kind google-play needs --play-package and --play-key")
        }
        return verifier
    }
}

/// The verifier of purchases of the app `package`, with the licensing key in a file; `nil` without both.
func googlePlayVerifier(_ package: String?, keyFile path: String?) throws(Failure) -> GooglePlayVerifier? {
    guard let values = try together([("play-package", package), ("play-key", path)]) else { return nil }
    return try reading("play-key") {
        let key = try readText(values[1]).trimmingCharacters(in: .whitespacesAndNewlines)
        do throws(EvidenceError) {
            return try GooglePlayVerifier(packageNames: [values[0]], publicKey: key)
        } catch {
            throw Failure(.usage, "--play-key: \(values[1].singleLine): \(error.reason)")
        }
    }
}

/// Apple's id of the app, and the certificates that sign its evidence, for commands on a server.
struct AppStoreTrustOptions: ParsableArguments {
    @Option(help: .setting("app-store-app-id")) var appStoreAppID: String?
    @Option(help: .setting("evidence-root")) var evidenceRoot: String?

    /// The number, if it is given.
    func appID() throws(Failure) -> Int64? {
        try Setting.number(appStoreAppID ?? environmentVariable("SYNCD_APP_STORE_APP_ID"), of: "app-store-app-id")
    }

    /// The given roots, or the pinned ones.
    func roots() throws -> EvidenceRoots {
        try evidenceRoots(evidenceRoot ?? environmentVariable("SYNCD_EVIDENCE_ROOT"))
    }
}
