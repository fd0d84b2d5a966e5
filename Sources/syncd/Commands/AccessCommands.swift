import ArgumentParser
import EntitlementSync
import Entitlements
import SyncAgent

struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check an entitlement: exit code 0 if it is granted, 10 if it is denied.")

    @Argument(help: "The entitlement's id.")
    var entitlement: String

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStoreToRead()
        let access = try await store.access(to: EntitlementID(entitlement))
        try options.output.show(access.json(for: entitlement), or: access.summary)
        if !access.isGranted { throw ExitCode(.denied) }
    }
}

struct Use: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Use an entitlement once. It spends a unit only if no period or ownership grants it.")

    @Argument(help: "The entitlement's id.")
    var entitlement: String

    @Option(
        help: ArgumentHelp(
            "An idempotency key: repeating the command with the same key spends only once.", valueName: "key"))
    var id: String?

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStore()
        let outcome = try await store.use(EntitlementID(entitlement), id: id.map { SpendID($0) })
        let text =
            switch outcome {
            case .granted(let grant): Access.granted(grant).summary + ", nothing spent"
            case .spent(let remaining, let product):
                "granted: 1 unit of \(product) spent, \(plural(Int(remaining), "unit")) left"
            case .denied(let denial): Access.denied(denial).summary
            }
        try options.output.show(outcome.json(for: entitlement), or: text)
        if case .denied = outcome { throw ExitCode(.denied) }
    }
}

struct Explain: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Explain why an entitlement is granted or denied, fact by fact.")

    @Argument(help: "The entitlement's id.")
    var entitlement: String

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStoreToRead()
        let id = EntitlementID(entitlement)
        let access = try await store.access(to: id)
        let replay = try await store.replay()
        guard var explanation = replay.explanation(of: id, at: store.clockStatus.now) else {
            throw Failure(.notFound, "the catalogue has no entitlement \"\(entitlement.singleLine)\"")
        }
        explanation.access = access
        let policy = replay.catalog.policy
        let isAccelerated = policy.accelerates(replay.environment)
        try options.output.show(
            .object(explanation.members(rules: policy.rules, isAccelerated: isAccelerated)),
            or: explanation.text(rules: policy.rules, isAccelerated: isAccelerated))
    }
}

struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Show subscriptions, products, balances and access.")

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStoreToRead()
        let snapshot = try await store.snapshot()
        let account = "\(store.account)"
        let clock = store.clockStatus
        try options.output.show(
            snapshot.json(account: account, clock: clock),
            or: ([snapshot.text(account: account)] + clock.warnings).joined(separator: "\n"))
    }
}

struct TimelineCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "timeline", abstract: "Draw the periods of each subscription group, in 80 columns.")

    @Argument(help: "The group's id (default: all groups).")
    var group: String?

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStoreToRead()
        let snapshot = try await store.snapshot()
        let replay = try await store.replay()
        let subscriptions = snapshot.subscriptions.filter { group == nil || $0.group == group.map { GroupID($0) } }
        if let group, subscriptions.isEmpty {
            throw Failure(.notFound, "there is no group \"\(group.singleLine)\" in the catalogue or the ledger")
        }
        let timelines = subscriptions.map { ($0, replay.timelines[$0.group] ?? Timeline()) }
        let drawings = timelines.map { TimelineDrawing(subscription: $0, timeline: $1, now: snapshot.at) }
        try options.output.show(
            .array(timelines.map { snapshot.json(of: $0, $1) }),
            or: drawings.isEmpty
                ? "the catalogue has no group" : drawings.map(\.text).joined(separator: "\n\n"))
    }
}

struct FactsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "facts", abstract: "List all facts in the ledgers of the account, the device and the server.")

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStoreToRead()
        let (account, device) = try await store.localLedgers()
        let ledgers = [(account, "account"), (device, "device"), (try await store.serverLedger(), "server")]
        let facts = ledgers.flatMap { ledger, name in ledger.records.map { (Fact($0), name) } }
        try options.output.show(
            .array(facts.map { $0.json(ledger: $1) }),
            or: facts.isEmpty
                ? "no facts" : aligned(facts.map { [$0.kindName, $0.summary, $1] }).joined(separator: "\n"))
    }
}
