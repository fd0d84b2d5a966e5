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

            With --as-server, support writes the facts into the account's server ledger, on the server's own store, \
            with an entry in the audit list.

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
    @OptionGroup var support: SupportOptions
    @OptionGroup var reason: SupportReason
    @OptionGroup var creation: CreationOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        try support.checkIsUsed(by: reason)
        let statement = try statement(now: support.verificationTime)
        guard !support.asServer else {
            return try await support.record(
                statement.evidence, "record", "evidence of the kind \(kind)", reason.reason, creation, options)
        }
        let store = try await options.openStore(creating: creation)
        try await record(statement, into: store, options.output)
    }

    /// Verifies the evidence.
    private func statement(now: Timestamp) throws -> SignedStatement {
        let kind = try EvidenceKind(argument: kind, among: [.appStoreTransaction, .appStoreReceipt, .googlePlay])
        let environment = options.catalog.environmentID
        guard kind != .googlePlay else {
            guard appStore.bundle.isEmpty, appStore.evidenceRoot == nil else {
                throw Failure(.usage, "--bundle and --evidence-root do not apply to the kind google-play")
            }
            return try SignedStatement(googlePlay: EvidenceFile(file), googlePlay.verifier(), environment, now: now)
        }
        guard googlePlay.isEmpty else {
            throw Failure(.usage, "--play-package and --play-key do not apply to the kind \(kind.rawValue)")
        }
        try appStore.requireBundle(for: "the kind \(kind.rawValue)")
        let verifier = try appStore.verifier(of: environment)
        return kind == .appStoreReceipt
            ? try SignedStatement(receipt: EvidenceFile(file), verifier, now: now)
            : try SignedStatement(transaction: EvidenceFile(file), verifier, now: now)
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

    init(
        transaction file: EvidenceFile, _ verifier: AppStoreVerifier, now: Timestamp
    ) throws(EvidenceError) {
        let jws = file.text
        let evidence = try verifier.transaction(jws, now: now)
        let environment = evidence.line.map { "\($0.environment)/" } ?? ""
        self.init(evidence, subject: environment + (evidence.firstTransaction?.id.rawValue ?? ""), [("jws", jws)])
    }

    init(receipt file: EvidenceFile, _ verifier: AppStoreVerifier, now: Timestamp) throws(EvidenceError) {
        let bytes = file.receipt
        let evidence = try verifier.receipt(bytes, now: now)
        self.init(
            evidence, subject: evidence.firstTransaction?.environment.rawValue ?? "",
            [("data", Data(bytes).base64EncodedString())])
    }

    init(
        googlePlay file: EvidenceFile, _ verifier: GooglePlayVerifier, _ environment: EnvironmentID, now: Timestamp
    ) throws(EvidenceError) {
        let (data, signature) = try file.purchaseOfGooglePlay()
        let evidence = try verifier.purchase(data: data, signature: signature, now: now)
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

    /// Throws if a purchase or a renewal state is of another environment than `environment`.
    func check(_ environment: EnvironmentID) throws(EvidenceError) {
        for fact in facts {
            let stated: EnvironmentID
            switch fact {
            case .purchase(let purchase): stated = purchase.transaction.environment
            case .renewalState(let state): stated = state.line.environment
            default: continue
            }
            guard stated != environment else { continue }
            throw EvidenceError(
                .environment, "the purchases are of the environment \(stated), not \(environment.rawValue.singleLine)")
        }
    }
}
