import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import SyncCore
import SyncServer
import SyncService

/// The options of the format revenuecat.
struct RevenueCatOptions: ParsableArguments {
    static let title = "Options of the format revenuecat"

    @Flag(help: "Leave sandbox purchases out. Without this flag, they count in the sandbox environment.")
    var skipSandbox = false

    @Option(
        help: ArgumentHelp(
            "The issuer whose tokens have the app's user ids as subjects, as for serve. Its accounts get the "
                + "purchases.",
            valueName: "name"))
    var issuer: String?

    /// `true` if one of the options is used.
    var isUsed: Bool { skipSandbox || issuer != nil }
}

/// Imports the customers of RevenueCat into a server's store.
struct RevenueCatMigration {
    private let files: [String]
    private let options: StoreOptions
    private let isDryRun: Bool
    private let mayCreate: Bool
    private let issuer: String?
    private let url: StoreURL?
    private let conversion: RevenueCatConversion
    private let progress = ImportProgress()

    /// The number of transactions that are read before they are written.
    private static let batchCount = 512

    /// The counts of an import.
    private struct Tally {
        var (customers, added, present, refused) = (0, 0, 0, 0)
        var leftOut: [String: Int] = [:]
        var losses: [String: Int] = [:]

        var lines: [String] {
            let head =
                "\(plural(customers, "new account")), \(plural(added, "purchase")) imported, \(present) already there, "
                + "\(refused) refused"
            return [head]
                + leftOut.sorted { $0.key < $1.key }.map { "  \($0.value) left out: \($0.key)" }
                + losses.sorted { $0.key < $1.key }.map { "  \($0.value) not carried over: \($0.key)" }
        }

        var json: JSON {
            [
                "newAccounts": .number(customers), "added": .number(added), "present": .number(present),
                "refused": .number(refused), "leftOut": .object(leftOut.mapValues { .number($0) }),
                "notCarriedOver": .object(losses.mapValues { .number($0) }),
            ]
        }
    }

    /// A customer in a batch, and the reports about its transactions.
    private struct Entry {
        var customer: CustomerImport.Customer
        var reports: [String] = []
        var line: Int
    }

    /// Checks the options. Nothing is opened.
    init(
        _ files: [String], _ revenueCat: RevenueCatOptions, isDryRun: Bool, _ options: StoreOptions,
        _ creation: CreationOptions
    ) throws {
        (self.files, self.options, self.isDryRun, mayCreate) = (files, options, isDryRun, creation.create)
        issuer = revenueCat.issuer
        try options.refuseAccount()
        guard options.remoteText == nil else {
            throw Failure(.usage, "revenuecat writes the server's own store (--local), not a remote: remove --remote")
        }
        conversion = RevenueCatConversion(
            catalog: try options.catalog.load(), skipsSandbox: revenueCat.skipSandbox)
        url = try options.localText.map { try StoreURL($0, option: "--local") }
        guard isDryRun || url != nil else {
            throw Failure(.usage, "--local is required: the server's store, sqlite:FILE or postgres://HOST/DATABASE")
        }
    }

    func run() async throws {
        defer { progress.clear() }
        let store = try await url?.serverStore(isDryRun: isDryRun, mayCreate: mayCreate)
        // A damaged file is reported before anything is written.
        if !isDryRun { for file in files { try await read(file, "checking") { _ in } } }
        if !isDryRun, let store {
            // Its start migrates the store, and makes a new one that of a server.
            _ = try await EntitlementService(
                store, configuration: ServiceConfiguration(name: "syncd", catalog: conversion.catalog),
                passwords: PasswordHashing(threadCount: 1), onError: { warn("\($0)") })
        }
        let target = store ?? MemoryBackend()
        let accounts = try await AccountImport(target, isPreview: isDryRun)
        let customers = CustomerImport(target, accounts, catalog: conversion.catalog, issuer: issuer)
        if !isDryRun {
            let names = files.map { URL(filePath: $0).lastPathComponent.singleLine }.joined(separator: ", ")
            try await customers.begin(actor: NSUserName(), detail: "revenuecat: \(names)")
        }
        var tally = Tally()
        for file in files {
            try await read(file, isDryRun ? "reading" : "importing") { items in
                let entries = sorted(items, file, &tally)
                if isDryRun {
                    for entry in entries { try await show(entry, customers, &tally) }
                } else {
                    try await add(entries, file, customers, &tally)
                }
            }
        }
        progress.clear()
        try show(tally)
    }

    private func read(
        _ path: String, _ verb: String, _ body: ([RevenueCatFile.Item]) async throws -> Void
    ) async throws {
        do {
            var file = try RevenueCatFile(path)
            var (batch, count) = ([RevenueCatFile.Item](), 0)
            progress.begin(of: file.size, "\(verb) transactions")
            while let items = try file.next() {
                batch += items
                count += 1
                guard batch.count >= Self.batchCount else { continue }
                try await body(batch)
                batch = []
                progress.show(file.byteCount, count)
            }
            try await body(batch)
        } catch let error as InputError {
            throw Failure(.failed, "\(path): \(error)")
        }
    }

    /// The customers of a batch, in the order of their first transactions. Rows that share an id are of one customer,
    /// as they are if they come in different batches.
    private func sorted(_ items: [RevenueCatFile.Item], _ path: String, _ tally: inout Tally) -> [Entry] {
        var entries: [Entry] = []
        var indices: [[UInt8]: Int] = [:]
        for item in items {
            let row: RevenueCatTransaction
            switch item.result {
            case .success(let value): row = value
            case .failure(let error):
                refuse("\(error)", path, item.line, &tally)
                continue
            }
            // Compared as bytes.
            let keys = row.ids.map { Array($0.utf8) }
            let index = keys.lazy.compactMap { indices[$0] }.first ?? entries.endIndex
            for key in keys { indices[key] = index }
            if index == entries.endIndex {
                let customer = CustomerImport.Customer(id: row.ids[0], created: row.firstSeen ?? row.start)
                entries.append(Entry(customer: customer, line: item.line))
            }
            add(row, to: &entries[index], &tally)
        }
        return entries
    }

    private func add(_ row: RevenueCatTransaction, to entry: inout Entry, _ tally: inout Tally) {
        let known = [entry.customer.id] + entry.customer.otherIDs
        entry.customer.otherIDs += row.ids.filter { !known.contains($0) }
        entry.customer.created = min(entry.customer.created, row.firstSeen ?? row.start)
        switch conversion.result(row) {
        case .leftOut(let reason):
            tally.leftOut[reason, default: 0] += 1
            entry.reports.append("left out: \(row.summary): \(reason)")
        case .facts(let facts, let order, let losses):
            // A later row about the same transaction replaces an earlier one, as its stamp does in the ledger.
            entry.customer.facts += facts
            if let order { entry.customer.aliases[order, default: []].formUnion(facts.compactMap(\.transaction)) }
            for loss in losses { tally.losses[loss, default: 0] += 1 }
            entry.reports.append(
                row.summary + (row.isSandbox ? " in the sandbox" : "")
                    + (row.refunded.map { ", refunded \($0)" } ?? ""))
        }
    }

    private func refuse(_ reason: String, _ path: String, _ line: Int, _ tally: inout Tally) {
        tally.refused += 1
        progress.clear()
        warn("\(path): line \(line): refused: \(reason)")
    }

    private func add(
        _ entries: [Entry], _ path: String, _ customers: CustomerImport, _ tally: inout Tally
    ) async throws {
        // A customer without a purchase that counts gets no account.
        let entries = entries.filter { !$0.customer.facts.isEmpty }
        for (entry, outcome) in zip(entries, try await customers.add(entries.map(\.customer))) {
            let name = entry.customer.id.singleLine
            if outcome.isNew, outcome.account != nil { tally.customers += 1 }
            tally.added += outcome.added
            tally.present += outcome.present
            if let refusal = outcome.refusal { refuse("\(name): \(refusal)", path, entry.line, &tally) }
            for line in outcome.held {
                refuse("\(name): \("\(line)".singleLine) belongs to another account", path, entry.line, &tally)
            }
        }
    }

    private func show(_ entry: Entry, _ customers: CustomerImport, _ tally: inout Tally) async throws {
        let preview = try await customers.preview(entry.customer)
        var lines = entry.reports.map { "  " + $0 }
        for line in preview.held.sorted() {
            tally.refused += 1
            lines.append("  refused: \("\(line)".singleLine) belongs to another account")
        }
        if let refusal = preview.refusal {
            tally.refused += 1
            lines.append("  refused: \(refusal)")
        } else if !entry.customer.facts.isEmpty {
            if preview.isNew { tally.customers += 1 }
            tally.added += preview.added
            tally.present += preview.present
            let now = try options.clock.now()
            for environment in Set(preview.facts.purchases.map(\.transaction.environment)).sorted() {
                let snapshot = Replay(preview.facts, catalog: conversion.catalog, environment: environment)
                    .snapshot(at: now)
                for item in snapshot.access {
                    guard case .granted(let grant) = item.access else { continue }
                    let end = grant.until.map { "until \($0)" } ?? "for good"
                    lines.append(
                        "  gets \(item.entitlement) \(end)"
                            + (environment == .production ? "" : " in the environment \(environment)"))
                }
            }
        }
        guard !options.output.json else { return }
        progress.clear()
        let account = preview.account.singleLine
        let name = entry.customer.id.singleLine
        let kind =
            entry.customer.facts.isEmpty
            ? "nothing to import" : "\(preview.isNew ? "new account" : "account") \(account)"
        try writeOutput((["\(name): \(kind)"] + lines).joined(separator: "\n").utf8 + [0x0A])
    }

    private func show(_ tally: Tally) throws {
        let head = isDryRun ? ["dry run, nothing was written:"] : []
        try options.output.show(tally.json, or: (head + tally.lines).joined(separator: "\n"))
        guard tally.refused == 0 else {
            throw Failure(
                .conflict,
                "\(plural(tally.refused, "item")) of the export \(tally.refused == 1 ? "was" : "were") refused, see "
                    + "above; the others need not be imported again")
        }
    }
}

extension StoreURL {
    /// The store of a server, for an import of many customers; `nil` for a dry run without one.
    func serverStore(isDryRun: Bool, mayCreate: Bool) async throws -> (any KeyValueBackend)? {
        let isThere = try await exists()
        guard isThere || isDryRun || mayCreate else {
            throw Failure(.notFound, "--local: there is no store at \(text.singleLine); pass --create to create it")
        }
        if !isDryRun, mayCreate {
            let store = open(host: .system, mayCreateRemote: true)
            // The first import may have been killed before it wrote anything.
            if try await store.list(prefix: "", after: nil, limit: 1).outcome.items.isEmpty { return store }
        }
        guard isThere else { return nil }
        let store = existing()
        try await AccountImport.checkServer(store)
        return store
    }
}
