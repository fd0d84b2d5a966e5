import ArgumentParser
import Entitlements
import Foundation
import StoreEvidence
import SyncCore

struct EvidenceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evidence", abstract: "Verify what stores have signed.", subcommands: [EvidenceVerify.self])
}

struct EvidenceVerify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify", abstract: "Verify a piece of evidence, and print its facts.",
        discussion: """
            Prints the facts that the evidence proves. If a check fails, prints its name and the reason, and exits \
            with 4. Nothing is recorded.

            Examples:
              syncd evidence verify transaction.jws --kind app-store-transaction --bundle com.example.app
              syncd evidence verify receipt.der --kind app-store-receipt --bundle com.example.app --json
            """)

    @Argument(help: ArgumentHelp("The file with the evidence; - for standard input.", valueName: "file"))
    var file: String

    @Option(
        help: ArgumentHelp(
            "app-store-transaction, app-store-renewal, app-store-notification, app-store-receipt or verify-receipt.",
            valueName: "kind"))
    var kind: String

    @Option(help: ArgumentHelp("A bundle identifier of the app; repeat for others.", valueName: "id"))
    var bundle: [String] = []

    @Option(help: ArgumentHelp("Apple's id of the app, for notifications of production.", valueName: "number"))
    var appID: Int64?

    @Option(
        help: ArgumentHelp(
            "The accepted environment: production, sandbox or xcode; by default production and sandbox.",
            valueName: "environment"))
    var environment: String?

    @Option(help: ArgumentHelp("Root certificates (PEM) instead of Apple's.", valueName: "file"))
    var evidenceRoot: String?

    @Option(help: ArgumentHelp("The time of verification; by default now.", valueName: "time"))
    var at: String?

    @Flag(help: "Print JSON.")
    var json = false

    func run() async throws {
        guard let kind = EvidenceKind(rawValue: kind) else {
            let names = Self.kinds.map(\.rawValue).joined(separator: ", ")
            throw Failure(.usage, "--kind must be one of \(names), not \"\(self.kind.singleLine)\"")
        }
        guard Self.kinds.contains(kind) else {
            throw Failure(.usage, "--kind: evidence of the kind \(kind.rawValue) is verified by a server only")
        }
        let environments: Set<EnvironmentID> = environment.map { [EnvironmentID($0)] } ?? [.production, .sandbox]
        let verifier = AppStoreVerifier(
            bundleIDs: Set(bundle), appAppleID: appID, environments: environments,
            roots: try evidenceRoots(evidenceRoot))
        let now = try date(at, option: "--at") ?? Timestamp(milliseconds: HostServices.system.now())
        let bytes =
            file == "-"
            ? Array(try FileHandle.standardInput.readToEnd() ?? Data()) : try readDocument(file) { Array($0) }
        let evidence: VerifiedEvidence
        do throws(EvidenceError) {
            evidence = try verify(bytes, as: kind, by: verifier, now: now)
        } catch {
            throw Failure(.refused, "\(error)")
        }
        if json {
            try writeOutput(Array((JSON.object(Self.members(of: evidence)).text() + "\n").utf8))
        } else {
            try writeOutput(Array(Self.text(of: evidence).utf8))
        }
    }

    private static let kinds: [EvidenceKind] = [
        .appStoreTransaction, .appStoreRenewal, .appStoreNotification, .appStoreReceipt, .verifyReceipt,
    ]

    private func verify(
        _ bytes: [UInt8], as kind: EvidenceKind, by verifier: AppStoreVerifier, now: Timestamp
    ) throws(EvidenceError) -> VerifiedEvidence {
        let text = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        switch kind {
        case .appStoreRenewal: return try verifier.renewal(text, now: now)
        case .appStoreNotification where text.hasPrefix("{"): return try verifier.notification(bytes, now: now)
        case .appStoreNotification: return try verifier.notification(signedPayload: text, now: now)
        case .appStoreReceipt:
            let decoded = Data(base64Encoded: text, options: .ignoreUnknownCharacters)
            // DER begins with the tag of a sequence; base64 text never does.
            return try verifier.receipt(bytes.first == 0x30 ? bytes : Array(decoded ?? Data(bytes)), now: now)
        case .verifyReceipt: return try VerifyReceiptAnswer.evidence(bytes, bundleIDs: Set(bundle))
        default: return try verifier.transaction(text, now: now)
        }
    }

    private static func text(of evidence: VerifiedEvidence) -> String {
        var lines = [evidence.signedDate.map { "signed at \($0)" } ?? "not signed"]
        if !evidence.event.isEmpty { lines.append("event \(evidence.event.singleLine)") }
        if let token = evidence.accountToken { lines.append("account token \(token.singleLine)") }
        if evidence.facts.isEmpty { lines.append("no facts") }
        lines += evidence.facts.map { "\($0.kindName)  \($0.summary)" }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func members(of evidence: VerifiedEvidence) -> [(String, JSON)] {
        [
            ("kind", .string(evidence.kind.rawValue)), ("signedDate", JSON(evidence.signedDate?.description)),
            ("event", JSON(evidence.event.isEmpty ? nil : evidence.event)),
            ("accountToken", JSON(evidence.accountToken)),
            ("facts", .array(evidence.facts.map { $0.json(ledger: "evidence") })),
        ]
    }
}
