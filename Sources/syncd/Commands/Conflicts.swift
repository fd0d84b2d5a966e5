import ArgumentParser
import EntitlementSync
import Entitlements
import SyncService

struct Conflicts: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List conflicts: contradictions, what the server overrode, overspent units.")

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openStoreToRead()
        let conflicts = try await store.conflicts()
        try options.output.show(
            .array(conflicts.map(\.json)),
            or: conflicts.isEmpty
                ? "no conflicts" : aligned(conflicts.map { [$0.kindName, $0.summary] }).joined(separator: "\n"))
    }
}

extension Conflict {
    var kindName: String {
        switch self {
        case .contradiction: "contradiction"
        case .redated: "redated"
        case .transferred: "transferred"
        case .refused: "refused"
        case .overridden: "overridden"
        case .unverified: "unverified"
        case .overspent: "overspent"
        }
    }

    var summary: String {
        switch self {
        case .contradiction(let note): Fact.contradiction(note).summary
        case .redated(let purchase, let stated):
            "\(purchase.transaction.id)  counts as of \(purchase.date), not \(stated)"
        case .transferred(let purchase, let account):
            "\(purchase.transaction.id)  belongs to \"\(account.singleLine)\" now"
        case .refused(let purchase, let reason): "\(purchase.transaction.id)  \(reason.singleLine)"
        case .overridden(let fact, let replacement):
            "\(fact.kindName) \(fact.summary)  the server states: \(replacement.kindName) \(replacement.summary)"
        case .unverified(let fact): "\(fact.kindName) \(fact.summary)  the server has not verified it"
        case .overspent(let spend, let writtenOff):
            "\(spend.product)  \(plural(Int(writtenOff), "unit")) written off, spent by \(spend.replica.short) "
                + "at \(spend.date)"
        }
    }

    var json: JSON {
        .object([("kind", .string(kindName)), ("conflict", .string(summary))] + details)
    }

    private var details: [(String, JSON)] {
        switch self {
        case .contradiction(let note): [("transactionID", .string(note.kept.transaction.id.rawValue))]
        case .redated(let purchase, _), .transferred(let purchase, _), .refused(let purchase, _):
            [("transactionID", .string(purchase.transaction.id.rawValue))]
        case .overridden(let fact, _), .unverified(let fact):
            fact.transaction.map { [("transactionID", .string($0.id.rawValue))] } ?? []
        case .overspent(let spend, let writtenOff):
            [("spendID", .string(spend.id.rawValue)), ("writtenOff", .number(writtenOff))]
        }
    }
}
