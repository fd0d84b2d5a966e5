import ArgumentParser
import Entitlements
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

    @OptionGroup var appStore: AppStoreOptions

    @Option(help: ArgumentHelp("Apple's id of the app, for notifications of production.", valueName: "number"))
    var appID: Int64?

    @Option(
        help: ArgumentHelp(
            "The accepted environment: production, sandbox or xcode; by default production and sandbox.",
            valueName: "environment"))
    var environment: String?

    @Option(help: ArgumentHelp("The time of verification; by default now.", valueName: "time"))
    var at: String?

    @Flag(help: "Print JSON.")
    var json = false

    func run() async throws {
        let kind = try EvidenceKind(argument: kind, among: Self.kinds)
        let environments: Set<EnvironmentID> = environment.map { [EnvironmentID($0)] } ?? [.production, .sandbox]
        let verifier = AppStoreVerifier(
            bundleIDs: Set(appStore.bundle), appAppleID: appID, environments: environments,
            roots: try evidenceRoots(appStore.evidenceRoot))
        let now = try date(at, option: "--at") ?? Timestamp(milliseconds: HostServices.system.now())
        let evidence = try verify(EvidenceFile(file), as: kind, by: verifier, now: now)
        try show(Self.json(evidence), or: Self.text(of: evidence), asJSON: json)
    }

    private static let kinds: [EvidenceKind] = [
        .appStoreTransaction, .appStoreRenewal, .appStoreNotification, .appStoreReceipt, .verifyReceipt,
    ]

    private func verify(
        _ file: EvidenceFile, as kind: EvidenceKind, by verifier: AppStoreVerifier, now: Timestamp
    ) throws(EvidenceError) -> VerifiedEvidence {
        switch kind {
        case .appStoreRenewal: return try verifier.renewal(file.text, now: now)
        case .appStoreNotification where file.text.hasPrefix("{"):
            return try verifier.notification(file.bytes, now: now)
        case .appStoreNotification: return try verifier.notification(signedPayload: file.text, now: now)
        case .appStoreReceipt: return try verifier.receipt(file.receipt(), now: now)
        case .verifyReceipt: return try VerifyReceiptAnswer.evidence(file.bytes, bundleIDs: Set(appStore.bundle))
        default: return try verifier.transaction(file.text, now: now)
        }
    }

    private static func text(of evidence: VerifiedEvidence) -> String {
        var lines = [evidence.signedDate.map { "signed at \($0)" } ?? "not signed"]
        if !evidence.event.isEmpty { lines.append("event \(evidence.event.singleLine)") }
        if let token = evidence.accountToken { lines.append("account token \(token.singleLine)") }
        if evidence.facts.isEmpty { lines.append("no facts") }
        lines += evidence.facts.map { "\($0.kindName)  \($0.summary)" } + evidence.warnings.map { "warning: \($0)" }
        return lines.joined(separator: "\n")
    }

    private static func json(_ evidence: VerifiedEvidence) -> JSON {
        [
            "kind": .string(evidence.kind.rawValue), "signedDate": JSON(evidence.signedDate?.description),
            "event": JSON(evidence.event.isEmpty ? nil : evidence.event), "accountToken": JSON(evidence.accountToken),
            "facts": .array(evidence.facts.map { $0.json(ledger: "evidence") }),
            "warnings": .array(evidence.warnings.map(JSON.string)),
        ]
    }
}
