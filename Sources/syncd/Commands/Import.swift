import ArgumentParser
import EntitlementSync
import Entitlements

struct Import: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Import purchases from another system. Repeating an import adds nothing.",
        discussion: """
            Formats:
              history       a JSON array of purchases, as written by export
              facts         a ledger, as written by export --format ledger
              userdefaults  a property list with ExpirationDate and a Boolean for each owned product
              parse         an export of Parse's _User class; ExpirationDate is a date or an array of dates
              parse-mongo   all users of a Parse app into the server's store, from mongoexport or an export of parse.com
              receipt       an app receipt of the App Store, in DER or base64; it is verified and kept as evidence
              verify-receipt  the JSON that Apple's verifyReceipt answered; it is not signed, so it counts as this \
            device's own statements
              revenuecat    customers of RevenueCat into the server's store, from answers of GET /v1/subscribers/ID or \
            the CSV of its transactions export

            The whole file is checked before anything is written. receipt and verify-receipt need --bundle, and must \
            be of the environment that --environment names.

            parse-mongo takes no file argument, but --users, --sessions and --class. It keeps passwords and sessions. \
            What cannot be imported is refused in a line of its own, the rest is imported, and the exit code is 5. The \
            same applies to revenuecat, which takes several files. Repeat an import that was interrupted.

            With --as-server, support writes a receipt, a verify-receipt or a history into the account's server \
            ledger, on the server's own store, with an entry in the audit list. All of it is refused if a purchase \
            belongs to another account.
            """)

    enum Format: String, ExpressibleByArgument, CaseIterable {
        case history
        case facts
        case userdefaults
        case parse
        case parseMongo = "parse-mongo"
        case receipt
        case verifyReceipt = "verify-receipt"
        case revenueCat = "revenuecat"

        /// True for formats that have all customers of another system.
        var isOfAll: Bool { self == .parseMongo || self == .revenueCat }
    }

    @Argument(
        help: ArgumentHelp(
            "The file to import. All formats except parse-mongo need one; revenuecat takes several.",
            valueName: "file"))
    var documents: [String] = []

    @Option(help: "The file's format.")
    var format: Format

    @Option(
        help: ArgumentHelp(
            "userdefaults, parse: the group that the expiry date is for (default: the only non-renewing group).",
            valueName: "group"))
    var group: String?

    @Option(
        help: ArgumentHelp(
            "parse: the username or objectId, required if the export has several users.", valueName: "name"))
    var user: String?

    @Option(
        help: ArgumentHelp(
            "userdefaults, parse: the date of the source's statement (default: now, or Parse's updatedAt).",
            valueName: "date"))
    var assertedAt: String?

    @OptionGroup(title: ParseImportOptions.title) var parse: ParseImportOptions
    @OptionGroup(title: RevenueCatOptions.title) var revenueCat: RevenueCatOptions
    @OptionGroup var appStore: AppStoreOptions
    @OptionGroup var support: SupportOptions
    @OptionGroup var reason: SupportReason
    @OptionGroup var creation: CreationOptions
    @OptionGroup var options: StoreOptions

    private var dryRun: Bool { support.act.dryRun }

    /// The file to import. It is checked before it is used.
    var file: String { documents.first ?? "" }

    func validate() throws {
        guard (format == .parseMongo) == documents.isEmpty else {
            throw ValidationError(
                format == .parseMongo
                    ? "the format parse-mongo takes --users, --sessions and --class instead of a file"
                    : "the format \(format.rawValue) needs a file")
        }
        guard documents.count <= 1 || format == .revenueCat else {
            throw ValidationError("the format \(format.rawValue) takes one file, not \(documents.count)")
        }
        guard format == .parseMongo || !parse.isUsed else {
            throw ValidationError(
                "--users, --sessions, --class and --parse-field apply to the format parse-mongo only")
        }
        guard format == .revenueCat || !revenueCat.isUsed else {
            throw ValidationError("--skip-sandbox and --issuer apply to the format revenuecat only")
        }
        let isMigration = format == .userdefaults || format == .parse
        let strays = [
            ("--group", group != nil && !isMigration), ("--user", user != nil && format != .parse),
            ("--asserted-at", assertedAt != nil && !isMigration),
            ("--bundle", !appStore.bundle.isEmpty && format != .receipt && format != .verifyReceipt),
            ("--evidence-root", appStore.evidenceRoot != nil && format != .receipt),
            ("--as-server", support.asServer && (isMigration || format == .facts || format.isOfAll)),
            ("--dry-run", dryRun && !format.isOfAll),
        ]
        if let stray = strays.first(where: \.1) {
            let others = stray.0 == "--as-server" ? ": it takes history, receipt and verify-receipt" : ""
            throw ValidationError("\(stray.0) does not apply to the format \(format.rawValue)\(others)")
        }
    }

    func run() async throws {
        try support.checkIsUsed(by: reason, orDryRun: format.isOfAll)
        if format == .parseMongo {
            #if Parse
            return try await ParseMigration(parse, isDryRun: dryRun, options, creation).run()
            #else
            throw ParseOptions.isMissing("the format parse-mongo")
            #endif
        }
        if format == .revenueCat {
            return try await RevenueCatMigration(documents, revenueCat, isDryRun: dryRun, options, creation).run()
        }
        if let evidence = try evidence() { return try await importEvidence(evidence) }
        let assertedAt = try date(assertedAt, option: "--asserted-at")
        let store = try await options.openStore(creating: creation)
        switch format {
        case .history: try await importHistory(into: store)
        case .facts: try await importFacts(into: store)
        case .userdefaults:
            let defaults = try readDocument(file) { try UserDefaultsFile($0, catalog: store.catalog) }
            try await migrate(defaults.migration, statedAt: assertedAt, into: store, defaults)
        case .parse:
            let migration = try readDocument(file) { try Migration.parse(json: $0, user: user) }
            try await migrate(migration, statedAt: assertedAt ?? migration.statedAt, into: store)
        case .receipt, .verifyReceipt, .parseMongo, .revenueCat:
            preconditionFailure("these formats have no ledger as their target")
        }
    }

    private func importHistory(into store: EntitlementStore) async throws {
        let history = try readDocument(file) { try History(json: $0, catalog: store.catalog) }
        let facts = history.entries.flatMap { $0.facts(in: options.catalog.environmentID) }
        // One call records everything, so that a purchase is never stored without its refund.
        let receipt = try await store.record(facts.compactMap { Evidence(unsigned: $0) })
        try show(receipt, of: history.entries.count, "entry", "entries", in: store)
    }

    /// Prints the result of an import of statements without signatures.
    ///
    /// - Parameters:
    ///   - count: The number of statements, which `one` and `many` name.
    ///   - warnings: The parts that were left out; `nil` for a format that is imported as a whole.
    func show(
        _ receipt: RecordingReceipt, of count: Int, _ one: String, _ many: String, in store: EntitlementStore,
        warnings: [String]? = nil
    ) throws(Failure) {
        let purchases = receipt.newFacts.count { $0.purchase != nil }
        let refunds = receipt.newFacts.count { if case .revocation = $0 { true } else { false } }
        let head =
            "imported for \(store.account): \(plural(purchases, "new purchase")) and \(plural(refunds, "new refund")) "
            + "of \(plural(count, one, many))"
        try options.output.show(
            (
                [
                    (many, .number(count)), ("newPurchases", .number(purchases)),
                    ("newRefunds", .number(refunds)),
                ] + (warnings.map { [("warnings", .array($0.map(JSON.string)))] } ?? []),
                ([head] + (warnings ?? []).map { "  warning: \($0)" }).joined(separator: "\n")
            ), of: store)
    }

    private func importFacts(into store: EntitlementStore) async throws {
        let ledger = try readDocument(file) { bytes in
            do { return try LedgerDocument(decoding: bytes).ledger } catch let error as LedgerFormatError {
                throw Failure(error.kind == .newerFormat ? .refused : .failed, "\(file): \(error)")
            }
        }
        let leftOut = ledger.count - ledger.transferable.count
        let newFacts = try await store.join(ledger).count
        let note = leftOut == 0 ? "" : "; \(leftOut) left out, which are valid only in their original ledger"
        try options.output.show(
            [
                "account": "\(store.account)", "facts": .number(ledger.count), "newFacts": .number(newFacts),
                "leftOut": .number(leftOut),
            ],
            or: "imported for \(store.account): \(plural(newFacts, "new fact")) of \(ledger.count)\(note)")
    }

    /// - Parameter defaults: The file of the migration, if it may hold other values.
    private func migrate(
        _ migration: Migration, statedAt: Timestamp?, into store: EntitlementStore, _ defaults: UserDefaultsFile? = nil
    ) async throws {
        let (ignored, others) = (defaults?.ignored ?? [], defaults?.otherCount ?? 0)
        var migration = migration
        migration.statedAt = statedAt
        let report = try await report(of: migration, into: store)
        let ends = try await store.snapshot().subscriptions.compactMap { subscription in
            subscription.expires.map { (subscription.group.rawValue, $0) }
        }
        try options.output.show(
            [
                "account": "\(store.account)", "source": .string(migration.source.rawValue),
                "newExpiries": .array(report.newExpiries.map { .string("\($0)") }),
                "newFlags": .array(report.newlyOwned.map { .string($0.rawValue) }), "known": .number(report.knownCount),
                "lapsed": .array(report.lapsed.map { .string("\($0)") }),
                "ignored": .array(ignored.map { ["key": .string($0.key), "reason": .string($0.reason)] }),
                "others": .number(others), "expires": .object(ends.map { ($0.0, .string("\($0.1)")) }),
            ],
            or: text(of: report, account: store.account, ends: ends)
                + ignored.map { "\n  left out: \($0.key): \($0.reason)" }.joined()
                + (others > 0 ? "\n  left out: \(plural(others, "key")) without purchases" : ""))
    }

    private func report(of migration: Migration, into store: EntitlementStore) async throws -> MigrationReport {
        do {
            return try await store.migrate(migration, group: group.map { GroupID($0) })
        } catch {
            throw error.kind == .invalid && group == nil ? Failure(.usage, "\(error) (pass --group)") : Failure(error)
        }
    }

    private func text(of report: MigrationReport, account: Account, ends: [(group: String, end: Timestamp)]) -> String {
        let expiries = plural(report.newExpiries.count, "new expiry", "new expiries")
        let flags = plural(report.newlyOwned.count, "new flag")
        var lines = ["imported for \(account): \(expiries) and \(flags), \(report.knownCount) already known"]
        lines += ends.map { "  \($0.group) ends at \($0.end)" }
        lines += report.lapsed.map { "  adds nothing, already expired: \($0)" }
        return lines.joined(separator: "\n")
    }
}
