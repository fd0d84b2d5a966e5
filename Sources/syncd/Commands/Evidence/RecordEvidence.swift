import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import StoreEvidence
import SyncCore
import SyncService

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
        let item = try item(now: support.verificationTime)
        let summary = "evidence of the kind \(kind)"
        try await support.record(summary: summary, reason: reason.reason, creation, options) {
            try await $0.record(item.evidence, $1)
        } onDevice: {
            try await record(item, into: $0, options.output)
        }
    }

    /// Verifies the evidence.
    private func item(now: Timestamp) throws -> EvidenceItem {
        let kind = try EvidenceKind(argument: kind, among: [.appStoreTransaction, .appStoreReceipt, .googlePlay])
        let environment = options.catalog.environmentID
        guard kind != .googlePlay else {
            guard appStore.bundle.isEmpty, appStore.evidenceRoot == nil else {
                throw Failure(.usage, "--bundle and --evidence-root do not apply to the kind google-play")
            }
            let verifier = try googlePlay.verifier()
            let (data, signature) = try EvidenceFile(file).purchaseOfGooglePlay()
            let item = try EvidenceItem(data: data, signature: signature, verifier, now: now)
            try item.evidence.check(environment)
            return item
        }
        guard googlePlay.isEmpty else {
            throw Failure(.usage, "--play-package and --play-key do not apply to the kind \(kind.rawValue)")
        }
        try appStore.requireBundle(for: "the kind \(kind.rawValue)")
        let verifier = try appStore.verifier(of: environment)
        return kind == .appStoreReceipt
            ? try EvidenceItem(
                receipt: EvidenceFile(file).receipt(), verifier, now: now,
                expiryTime: Timestamp(milliseconds: HostServices.system.now()))
            : try EvidenceItem(jws: EvidenceFile(file).text, verifier, now: now)
    }
}

/// Records verified evidence on a device, and prints what was new.
func record(_ item: EvidenceItem, into store: EntitlementStore, _ output: OutputOptions) async throws {
    let evidence = item.evidence
    let receipt = try await store.record(
        .verified(
            VerifiedStatement(
                kind: evidence.kind.rawValue, subject: item.subject, data: item.json, facts: evidence.facts,
                signedDate: evidence.signedDate ?? .earliest)))
    let waiting = try await store.waitingEvidenceCount()
    let purchases = receipt.newFacts.count { if case .purchase = $0 { true } else { false } }
    let transactions = receipt.transactions.map(\.id.rawValue)
    let isNew = !receipt.newFacts.isEmpty
    let members: [(String, JSON)] = [
        ("kind", .string(evidence.kind.rawValue)), ("transactionIDs", .array(transactions.map { .string($0) })),
        ("isNew", .bool(isNew)), ("newPurchases", .number(Int64(purchases))), ("waiting", .number(Int64(waiting))),
    ]
    let text =
        "\(isNew ? "recorded" : "already recorded") for \(store.account): "
        + "\(plural(purchases, "new purchase")) of \(transactions.count) in \(evidence.kind.rawValue)"
    try output.show((members, text), of: store)
}
