import ArgumentParser
import Entitlements
import Foundation
import SyncCore
import SyncService

struct Audit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit", abstract: "Print and verify the audit list of a server's store.",
        discussion: """
            The list has an entry for each transfer of a purchase between accounts and for each act of support. Each \
            entry contains the digest of the one before. If an entry was changed or removed, prints the entries before \
            it and exits with 4. Keep the last digest elsewhere: the list alone cannot show that its end is missing.
            """)

    @Option(help: ArgumentHelp("The server's store, required: sqlite:FILE or file:DIR.", valueName: "store"))
    var store: String

    @Flag(help: "Print JSON.")
    var json = false

    func run() async throws {
        let log = AuditLog(store: try StoreURL(store, option: "--store").existing())
        let verification = try await log.verify()
        let count =
            switch verification {
            case .intact(let count, _): count
            case .broken(let number, _): number - 1
            }
        var rows: [AuditLog.Entry] = []
        while rows.count < count {
            let page = try await log.entries(after: rows.count, limit: min(1_000, count - rows.count))
            guard !page.isEmpty else { break }
            rows += page
        }
        try show(Self.json(rows, verification), or: Self.text(rows, verification), asJSON: json)
        if case .broken(let number, let reason) = verification {
            throw Failure(.refused, "entry \(number) of the audit list is not as it was written: \(reason)")
        }
    }

    private static func text(_ rows: [AuditLog.Entry], _ verification: AuditLog.Verification) -> String {
        var lines = rows.map { entry in
            "\(entry.number)  \(entry.date)  \(entry.act)  \(entry.account.singleLine)  \(entry.line.singleLine)  "
                + "\(entry.actor.singleLine)  \(entry.detail.singleLine)"
                + (entry.reason.map { ": \($0.singleLine)" } ?? "")
        }
        if case .intact(let count, let digest) = verification {
            lines.append("\(count) entries, intact; last digest \(digest)")
        }
        return lines.joined(separator: "\n")
    }

    /// The state before or after an act, which is JSON.
    private static func state(_ text: String?) -> JSON {
        text.flatMap { try? JSON(parsing: Array($0.utf8)) } ?? .null
    }

    private static func json(_ rows: [AuditLog.Entry], _ verification: AuditLog.Verification) -> JSON {
        let entries: [JSON] = rows.map { entry in
            [
                "number": .number(entry.number), "date": .string(entry.date), "act": .string(entry.act),
                "account": .string(entry.account), "line": .string(entry.line), "actor": .string(entry.actor),
                "detail": .string(entry.detail), "reason": JSON(entry.reason), "before": state(entry.before),
                "after": state(entry.after),
            ]
        }
        let result: [(String, JSON)] =
            switch verification {
            case .intact(_, let digest): [("intact", .bool(true)), ("lastDigest", .string(digest))]
            case .broken(let number, let reason):
                [("intact", .bool(false)), ("broken", .number(number)), ("reason", .string(reason))]
            }
        return .object([("entries", .array(entries))] + result)
    }
}
