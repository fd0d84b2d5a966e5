import ArgumentParser
import EntitlementSync
import Entitlements
import SyncCore
import SyncService

struct Export: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Export the ledger as a purchase history or as a ledger document, or all customers of a server.",
        discussion: """
            The history has the purchases as the account's server sees them. It omits those that the server refused, \
            transferred or has not verified, and says so. A ledger document has the account's own facts only.

            --all exports every customer of a server's own store (--local), with purchases, periods, entitlements and \
            external ids, as one JSON object a line, or as CSV with one row for each of these. In CSV, a text that \
            begins with =, +, -, @, a tab or an apostrophe gets an apostrophe in front, so that no spreadsheet runs it \
            as a formula. JSON lines have the exact texts. A file appears only when it is complete.
            """)

    enum Format: String, ExpressibleByArgument, CaseIterable {
        case history
        case ledger
        case jsonLines = "json-lines"
        case csv

        var isOfAll: Bool { self == .jsonLines || self == .csv }
    }

    @Flag(help: "Export all customers of the server whose own store --local is.")
    var all = false

    @Option(
        help: """
            The format: purchases and refunds as JSON, or the account's facts as stored; with --all, json-lines or csv \
            (default: history, or json-lines with --all).
            """)
    var format: Format?

    @Option(help: ArgumentHelp("The file to write (default: standard output).", valueName: "file"))
    var output: String?

    @OptionGroup var options: StoreOptions

    func validate() throws {
        guard let format, format.isOfAll != all else { return }
        throw ValidationError(
            all ? "--all takes --format json-lines or csv" : "the format \(format.rawValue) needs --all")
    }

    func run() async throws {
        if all { return try await exportAll() }
        let store = try await options.openStoreToRead()
        let bytes: [UInt8]
        if format == .ledger {
            bytes = LedgerDocument(ledger: try await store.localLedgers().account).encoded()
        } else {
            let replay = try await store.replay()
            let overruled = Set(replay.purchasesOverruledByServer)
            if !overruled.isEmpty {
                warn("omitted \(plural(overruled.count, "purchase")) that the server does not count; see conflicts")
            }
            bytes = Array((replay.facts.history(of: options.catalog.environmentID, without: overruled) + "\n").utf8)
        }
        guard let output else { return try writeOutput(bytes) }
        try writeFile(bytes, to: output)
    }

    private func exportAll() async throws {
        try options.refuseAccount()
        if let remote = options.remoteText {
            throw Failure(
                .usage,
                "--all reads the server's own store, not \(remote.singleLine): pass --local sqlite:FILE or "
                    + "postgres://HOST/DATABASE, and no --remote; other programs page through GET /v1/customers")
        }
        guard let local = options.localText else { throw StoreOptions.localIsMissing }
        let url = try StoreURL(local, option: "--local")
        let export = CustomerExport(url.existing(), catalog: try options.catalog.load(), at: try options.clock.now())
        let file = try AtomicFile(output)
        let progress = CopyProgress()
        var count = 0
        do {
            if format == .csv { try file.write(CSV.line(CustomerExport.Customer.columns).utf8) }
            try await finding(url) {
                try await export.forEach { customer in
                    if format == .csv {
                        for row in customer.table { try file.write(CSV.line(row).utf8) }
                    } else {
                        try file.write((customer.json.line + "\n").utf8)
                    }
                    count += 1
                    if output != nil { progress.show(count) }
                }
            }
            try file.finish()
        } catch {
            progress.clear()
            file.discard()
            throw error
        }
        progress.clear()
        if let output { warn("\(output): \(plural(count, "customer"))") }
    }
}

extension Facts {
    fileprivate func history(of environment: EnvironmentID, without omitted: Set<Purchase>) -> String {
        let counted = purchases.filter { $0.transaction.environment == environment && !omitted.contains($0) }
        return JSON.array(
            counted.map { purchase in
                var members: [(String, JSON)] = [
                    ("transactionID", .string(purchase.transaction.id.rawValue)),
                    ("productID", .string(purchase.product.rawValue)),
                    ("purchaseDate", .string("\(statedDate(of: purchase))")),
                    ("quantity", .number(purchase.quantity)),
                ]
                let store = purchase.transaction.store
                if store != .reported { members.append(("store", .string(store.rawValue))) }
                if let end = purchase.storeExpiry { members.append(("expiresDate", .string("\(end)"))) }
                if let revokedAt = revocation(of: purchase)?.revokedAt {
                    members.append(("revokedAt", .string("\(revokedAt)")))
                }
                return .object(members)
            }
        ).text()
    }
}

struct Evaluate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Evaluate a purchase history under a catalogue's rules, without a store.",
        usage: "syncd evaluate --history <file> [<options>]")

    @Option(help: ArgumentHelp("The history, a JSON file as written by export.", valueName: "file"))
    var history: String

    @OptionGroup(title: CatalogOptions.title) var catalog: CatalogOptions
    @OptionGroup var clock: ClockOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let catalog = try catalog.load()
        let environment = self.catalog.environmentID
        let now = try clock.now()
        let history = try readDocument(history) { try History(json: $0, catalog: catalog) }
        let ledger = history.ledger(catalog: catalog, environment: environment)
        // The history serves as the account's ledger and the device's.
        let facts = Facts(account: ledger, device: ledger)
        let snapshot = Replay(facts, catalog: catalog, environment: environment).snapshot(at: now)
        try output.show(snapshot.json(account: nil), or: snapshot.text(account: nil))
    }
}
