import ArgumentParser
import Entitlements
import SyncCore
import SyncService

struct StoreReindex: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reindex", abstract: "Derive the rows of a store's projection again.",
        usage: "syncd store reindex <url> --catalog <file> [<options>]",
        discussion: """
            Derives all rows of the projection from the store, and removes those of what the store does not have. The \
            events stay, and what had changed unnoticed gets its events. A server that projects this store does the \
            work; otherwise the command does it. Docs/Sql.md describes the rows.
            """)

    @Argument(help: ArgumentHelp("The store of a server: sqlite:FILE or postgres://HOST/DATABASE.", valueName: "url"))
    var store: String

    @OptionGroup(title: CatalogOptions.title) var catalog: CatalogOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let url = try StoreURL(store, option: "<url>")
        let known = try catalog.load()
        let source = url.existing()
        _ = try await finding(url) { try await source.latestCursor() }
        let projector = Projector(
            source, into: try url.openProjection(option: "<url>"), catalog: known,
            json: try ServiceOptions.served(known), host: .system, onError: { warn("\($0)") })
        let progress = CopyProgress(of: "accounts")
        defer { progress.clear() }
        let count = try await projector.rebuild { count, total in
            if progress.total != total { progress.total = total }
            progress.show(count)
        }
        try output.show(
            ["store": .string(url.text), "accounts": .number(count)],
            or: "\(url.text): derived \(plural(count, "account", "accounts"))")
    }
}
