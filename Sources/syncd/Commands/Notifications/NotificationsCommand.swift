import ArgumentParser
import EntitlementSync
import Entitlements
import SyncCore
import SyncService

struct NotificationsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "notifications", abstract: "List and catch up notifications of stores, on a server's store.",
        subcommands: [NotificationList.self, CatchUp.self], defaultSubcommand: NotificationList.self)
}

struct NotificationList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the notifications that wait for the owner of their purchase.",
        discussion: """
            A store names a purchase that belongs to no account yet if a device has not sent it, and if the purchase \
            has no token of an account. The server keeps such facts until the owner appears. The list shows the line \
            of purchases, the kinds of its facts, their first and last date, and the size. Nothing is changed, and \
            the server may run.
            """)

    @OptionGroup var place: ServerStoreOptions

    @Flag(help: "Print JSON.")
    var json = false

    func run() async throws {
        let limit = EvidenceConfiguration().parkedByteLimit
        let parked = ParkedFacts(store: try place.open(), limit: limit)
        var items: [ParkedFacts.Item] = []
        while true {
            let page = try await parked.items(after: items.last?.line)
            guard !page.isEmpty else { break }
            items += page
        }
        let total = items.reduce(0) { $0 + $1.byteCount }
        try show(Self.json(items, total, limit), or: Self.text(items, total, limit), asJSON: json)
    }

    private static func text(_ items: [ParkedFacts.Item], _ total: Int, _ limit: Int) -> String {
        let rows = items.map { item in
            [
                "\(item.line)".singleLine, item.kinds.joined(separator: ", "), item.dates.first.map { "\($0)" } ?? "",
                item.dates.last.map { "\($0)" } ?? "", "\(item.byteCount) bytes",
            ]
        }
        let sum = "\(items.count) lines, \(total) of \(limit) bytes"
        return (aligned(rows) + [sum]).joined(separator: "\n")
    }

    private static func json(_ items: [ParkedFacts.Item], _ total: Int, _ limit: Int) -> JSON {
        [
            "lines": .array(
                items.map { item in
                    .object(
                        item.line.members + [
                            ("kinds", .array(item.kinds.map { .string($0) })),
                            ("first", JSON(item.dates.first?.description)),
                            ("last", JSON(item.dates.last?.description)), ("bytes", .number(item.byteCount)),
                        ])
                }), "bytes": .number(total), "limit": .number(limit),
        ]
    }
}

extension ParkedFacts.Item {
    /// The kinds of the facts, in ascending order.
    fileprivate var kinds: [String] { Set(facts.map(\.kindName)).sorted() }

    /// The dates of the statements, in ascending order.
    fileprivate var dates: [Timestamp] {
        facts.compactMap(\.stamp?.signedDate).sorted()
    }
}

/// The store of a server on this machine, which must exist.
struct ServerStoreOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The server's store, required: sqlite:FILE or file:DIR (SYNCD_STORE).", valueName: "store"))
    var store: String?

    func open() throws -> any KeyValueBackend {
        guard let text = store ?? environmentVariable("SYNCD_STORE") else {
            throw Failure(.usage, "--store is required: sqlite:FILE or file:DIR (or set SYNCD_STORE)")
        }
        let url = try StoreURL(text, option: "--store")
        switch url.place {
        case .local(.file, _), .local(.sqlite, _), .postgreSQL: return url.existing()
        case .local(.folder, _), .memory, .server:
            throw Failure(
                .usage, "--store must be the store of a server, sqlite:FILE or file:DIR, not \(text.singleLine)")
        }
    }
}
