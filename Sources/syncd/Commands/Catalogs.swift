import ArgumentParser
import Entitlements

struct CatalogCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "catalog", abstract: "Check and convert catalogues.",
        subcommands: [CatalogCheck.self, CatalogConvert.self])
}

struct CatalogCheck: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check a catalogue and list its products, entitlements and offerings.")

    @Argument(help: "The catalogue, JSON or .storekit (default: --catalog or SYNCD_CATALOG).")
    var file: String?

    @OptionGroup(title: CatalogOptions.title) var options: CatalogOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        var options = options
        options.file = file ?? options.file
        let catalog = try options.load()
        let rows = catalog.products.map { [$0.id.rawValue, $0.kind.summary, $0.name()] }
        let entitlements = catalog.entitlements.map { entitlement in
            [entitlement.id.rawValue, entitlement.grantedBy.map(\.description).joined(separator: " or ")]
        }
        let offerings = catalog.offerings.map { offering in
            [offering.id.rawValue, offering.products.map(\.rawValue).joined(separator: ", ")]
        }
        let head =
            catalog.products.isEmpty
            ? "valid, but without products: add what the app sells"
            : "valid: \(plural(catalog.products.count, "product")), "
                + plural(catalog.entitlements.count, "entitlement")
                + (offerings.isEmpty ? "" : ", " + plural(offerings.count, "offering"))
        try output.show(
            [
                "products": .array(catalog.products.map { .string($0.id.rawValue) }),
                "groups": .array(catalog.groups.map { .string($0.rawValue) }),
                "entitlements": .array(catalog.entitlements.map { .string($0.id.rawValue) }),
                "offerings": .array(catalog.offerings.map { .string($0.id.rawValue) }),
            ],
            or: ([head]
                + [rows, entitlements, offerings].map(aligned).filter { !$0.isEmpty }.joined(separator: [""]))
                .joined(separator: "\n"))
    }
}

struct CatalogConvert: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "convert", abstract: "Convert a catalogue, such as a .storekit file, to JSON.")

    @Argument(help: "The catalogue, JSON or .storekit (default: --catalog or SYNCD_CATALOG).")
    var file: String?

    @Option(help: ArgumentHelp("The file to write (default: standard output).", valueName: "file"))
    var output: String?

    @OptionGroup(title: CatalogOptions.title) var options: CatalogOptions

    func run() async throws {
        var options = options
        options.file = file ?? options.file
        let bytes = Array((try options.load().json.text() + "\n").utf8)
        guard let output else { return try writeOutput(bytes) }
        try writeFile(bytes, to: output)
    }
}

extension ProductKind {
    fileprivate var summary: String {
        switch self {
        case .consumable(let units): plural(Int(units), "unit")
        case .nonConsumable: "for good"
        case .nonRenewing(let group, let duration): "\(duration) in \(group)"
        case .autoRenewable(let group, let level, let duration, _): "\(duration) in \(group), level \(level), renews"
        }
    }
}
