import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import StoreEvidence

struct RecordEvidence: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evidence", abstract: "Verify what a store has signed, and record its facts.",
        discussion: """
            Records the facts together with the evidence. The next sync sends the evidence to the account's server. If \
            a check fails, prints its name and the reason, exits with 4, and records nothing. The evidence must be of \
            the environment that --environment names.

            Kinds:
              app-store-transaction  a signed transaction of StoreKit 2 (a JWS)
              app-store-receipt      an app receipt, as it is or in base64
              google-play            a JSON object with the texts data and signature

            Examples:
              syncd record evidence transaction.jws --kind app-store-transaction --bundle com.example.app
              syncd record evidence purchase.json --kind google-play --play-package com.example.app --play-key key.txt
            """)

    @Argument(help: ArgumentHelp("The file with the evidence; - for standard input.", valueName: "file"))
    var file: String

    @Option(
        help: ArgumentHelp("app-store-transaction, app-store-receipt or google-play.", valueName: "kind"))
    var kind: String

    @OptionGroup var appStore: AppStoreOptions
    @OptionGroup var googlePlay: GooglePlayOptions
    @OptionGroup var creation: CreationOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        let statement = try statement()
        let store = try await options.openStore(creating: creation)
        try await record(statement, into: store, options.output)
    }

    /// Verifies the evidence.
    private func statement() throws -> SignedStatement {
        let kind = try EvidenceKind(argument: kind, among: [.appStoreTransaction, .appStoreReceipt, .googlePlay])
        let environment = options.catalog.environmentID
        guard kind != .googlePlay else {
            guard appStore.bundle.isEmpty, appStore.evidenceRoot == nil else {
                throw Failure(.usage, "--bundle and --evidence-root do not apply to the kind google-play")
            }
            return try SignedStatement(googlePlay: EvidenceFile(file), googlePlay.verifier(), environment)
        }
        guard googlePlay.isEmpty else {
            throw Failure(.usage, "--play-package and --play-key do not apply to the kind \(kind.rawValue)")
        }
        try appStore.requireBundle(for: "the kind \(kind.rawValue)")
        let verifier = try appStore.verifier(of: environment)
        return kind == .appStoreReceipt
            ? try SignedStatement(receipt: EvidenceFile(file), verifier)
            : try SignedStatement(transaction: EvidenceFile(file), verifier)
    }
}

/// Records verified evidence on a device, and prints what was new.
func record(_ statement: SignedStatement, into store: EntitlementStore, _ output: OutputOptions) async throws {
    let receipt = try await store.record(.verified(statement.stored))
    let waiting = try await store.waitingEvidenceCount()
    let purchases = receipt.newFacts.count { if case .purchase = $0 { true } else { false } }
    let transactions = receipt.transactions.map(\.id.rawValue)
    let isNew = receipt.newFacts.contains { if case .evidence = $0 { true } else { false } }
    try output.show(
        .object([
            ("account", .string("\(store.account)")), ("kind", .string(statement.evidence.kind.rawValue)),
            ("transactionIDs", .array(transactions.map { .string($0) })), ("isNew", .bool(isNew)),
            ("newPurchases", .number(Int64(purchases))), ("waiting", .number(Int64(waiting))),
        ]),
        or: "\(isNew ? "recorded" : "already recorded") for \(store.account): "
            + "\(plural(purchases, "new purchase")) of \(transactions.count) in \(statement.evidence.kind.rawValue)")
}

/// Evidence that was verified on this device, in the form in which the outbox keeps and sends it.
///
/// The subjects and members are those of `EntitlementSyncEvidence`, which apps use.
struct SignedStatement {
    let evidence: VerifiedEvidence
    let stored: VerifiedStatement

    /// The time for checks on a device. Its clock may be wrong, and a store's signature cannot be forged by setting it,
    /// so a date that is ahead of the clock is no reason to refuse a purchase.
    private static let deviceTime = Timestamp.latest

    init(transaction file: EvidenceFile, _ verifier: AppStoreVerifier) throws(EvidenceError) {
        let jws = file.text
        let evidence = try verifier.transaction(jws, now: Self.deviceTime)
        let environment = evidence.line.map { "\($0.environment)/" } ?? ""
        self.init(evidence, subject: environment + (evidence.firstTransaction?.id.rawValue ?? ""), [("jws", jws)])
    }

    init(receipt file: EvidenceFile, _ verifier: AppStoreVerifier) throws(EvidenceError) {
        let bytes = file.receipt
        let evidence = try verifier.receipt(bytes, now: Self.deviceTime)
        self.init(
            evidence, subject: evidence.firstTransaction?.environment.rawValue ?? "",
            [("data", Data(bytes).base64EncodedString())])
    }

    init(
        googlePlay file: EvidenceFile, _ verifier: GooglePlayVerifier, _ environment: EnvironmentID
    ) throws(EvidenceError) {
        let (data, signature) = try file.purchaseOfGooglePlay()
        let evidence = try verifier.purchase(data: data, signature: signature, now: Self.deviceTime)
        try evidence.check(environment)
        self.init(
            evidence, subject: evidence.firstTransaction?.id.rawValue ?? "",
            [("data", data), ("signature", signature)])
    }

    private init(_ evidence: VerifiedEvidence, subject: String, _ members: [(String, String)]) {
        let object = JSON.object(
            [("kind", .string(evidence.kind.rawValue))] + members.map { ($0.0, JSON.string($0.1)) })
        self.evidence = evidence
        stored = VerifiedStatement(
            kind: evidence.kind.rawValue, subject: subject, data: Array(object.text().utf8), facts: evidence.facts,
            signedDate: evidence.signedDate ?? .earliest)
    }
}

extension VerifiedEvidence {
    /// The transaction of the first purchase.
    fileprivate var firstTransaction: TransactionReference? {
        facts.lazy.compactMap { if case .purchase(let purchase) = $0 { purchase.transaction } else { nil } }.first
    }

    /// Throws if a purchase is of another environment than `environment`.
    func check(_ environment: EnvironmentID) throws(EvidenceError) {
        for case .purchase(let purchase) in facts where purchase.transaction.environment != environment {
            throw EvidenceError(
                .environment,
                "the purchases are of the environment \(purchase.transaction.environment), not \(environment)")
        }
    }
}
