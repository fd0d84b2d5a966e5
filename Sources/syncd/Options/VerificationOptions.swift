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
        AppStoreVerifier(
            bundleIDs: Set(bundle), environments: [environment], roots: try evidenceRoots(evidenceRoot))
    }
}

/// The app whose purchases of Google Play are accepted.
struct GooglePlayOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The package name of the app on Google Play.", valueName: "name"))
    var playPackage: String?

    @Option(
        help: ArgumentHelp("A file with the app's licensing key of Google Play, base64.", valueName: "file"))
    var playKey: String?

    var isEmpty: Bool { playPackage == nil && playKey == nil }

    func verifier() throws -> GooglePlayVerifier {
        guard let playPackage, let playKey else {
            throw Failure(.usage, "the kind google-play needs --play-package and --play-key")
        }
        let text = try readDocument(playKey) { String(decoding: $0, as: UTF8.self) }
        do throws(EvidenceError) {
            return try GooglePlayVerifier(
                packageNames: [playPackage], publicKey: text.trimmingCharacters(in: .whitespacesAndNewlines))
        } catch {
            throw Failure(.usage, "--play-key: \(playKey.singleLine): \(error.reason)")
        }
    }
}
