import ArgumentParser
import EntitlementSync
import Entitlements
import SyncCore

struct Sync: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Exchange facts with the remote, so that both sides have all of them.")

    @Flag(help: "Show what would change, without changing anything.")
    var dryRun = false

    @Flag(
        help: ArgumentHelp(
            "Create the remote if it is missing. Without this flag a missing remote, such as a share that is not "
                + "mounted, is an error."))
    var createRemote = false

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStore(createRemote: createRemote)
        try options.requireLogIn(of: store)
        let report = dryRun ? try await store.syncDryRun() : try await store.sync()
        try options.output.show(
            report.json(account: "\(store.account)", isDryRun: dryRun),
            or: report.text(account: "\(store.account)", isDryRun: dryRun))
    }
}

struct Restore: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Restore the account's purchases from the remote and list new ones.")

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStore()
        try options.requireLogIn(of: store)
        let report = try await store.restore()
        let account = "\(store.account)"
        let products = report.purchases.map { "  \($0.product)  \($0.date)  \($0.transaction.id)" }
        let head =
            products.isEmpty
            ? "nothing new for \(account)" : "restored for \(account): \(plural(products.count, "purchase"))"
        try options.output.show(
            [
                "account": .string(account),
                "restored": .array(report.purchases.map { Fact.purchase($0).json(ledger: "account") }),
                "status": report.snapshot.json(account: account),
            ],
            or: ([head] + products + report.sync.unreadableLines + report.sync.grantChanges).joined(separator: "\n"))
    }
}

extension SyncReport {
    fileprivate func json(account: String, isDryRun: Bool) -> JSON {
        [
            "account": .string(account), "dryRun": .bool(isDryRun),
            "received": .array(received.map { $0.json(ledger: "account") }), "sent": .bool(didSend),
            "conflicts": .array(conflicts.map(\.json)), "collisions": .number(collisions),
            "unreadable": .array(unreadable.map { entry in ["key": "\(entry.key)", "reason": "\(entry)"] }),
            "accessChanges": .object(
                accessChanges.map { change in
                    (change.entitlement.rawValue, ["before": change.before.json, "after": change.after.json])
                }),
        ]
    }

    fileprivate func text(account: String, isDryRun: Bool) -> String {
        let got = received.isEmpty ? "nothing" : plural(received.count, "fact")
        let head =
            isDryRun
            ? "would sync \(account): receive \(got), send \(didSend ? "what the remote lacks" : "nothing")"
            : "synced \(account): received \(got), sent \(didSend ? "what the remote lacked" : "nothing")"
        return ([head] + unreadableLines + conflicts.map { "  conflict: \($0.summary)" } + grantChanges).joined(
            separator: "\n")
    }
}

extension SyncReport {
    /// A line for each unreadable entry of the remote.
    fileprivate var unreadableLines: [String] {
        unreadable.map { "  unreadable, retried by the next sync: \($0)" }
    }

    /// A line for each entitlement that was granted before or is now. A changed reason for a denial is left out.
    fileprivate var grantChanges: [String] {
        accessChanges.filter { $0.before.isGranted || $0.after.isGranted }
            .map { "  \($0.entitlement): \($0.before.summary) → \($0.after.summary)" }
    }
}

/// A count with its noun in the singular or plural.
func plural(_ count: Int, _ noun: String, _ many: String? = nil) -> String {
    "\(count) \(count == 1 ? noun : many ?? noun + "s")"
}
