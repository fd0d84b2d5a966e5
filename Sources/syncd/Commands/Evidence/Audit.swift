import ArgumentParser
import Crypto
import Entitlements
import Foundation
import SyncCore
import SyncService

struct Audit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit", abstract: "Print and verify the audit list of a server's store.",
        discussion: """
            The list has an entry for each transfer of a purchase between accounts. Each entry contains the digest of \
            the one before. If an entry was changed or removed, exits with 4. Keep the last digest elsewhere: the list \
            alone cannot show that its end is missing.
            """)

    @Option(help: ArgumentHelp("The server's store, required: sqlite:FILE or file:DIR.", valueName: "store"))
    var store: String

    @Flag(help: "Print JSON.")
    var json = false

    func run() async throws {
        let backend = try StoreURL(store, option: "--store").open(host: .system).requiringExisting
        let log = AuditLog(store: backend) { Array(SHA256.hash(data: $0)) }
        var (rows, last): ([AuditLog.Entry], Int) = ([], 0)
        while true {
            let page = try await log.entries(after: last)
            guard let end = page.last else { break }
            rows += page
            last = end.number
        }
        let verification = try await log.verify()
        if json {
            try writeOutput(Array((Self.json(rows, verification).text() + "\n").utf8))
        } else {
            try writeOutput(Array(Self.text(rows, verification).utf8))
        }
        if case .broken(let number, let reason) = verification {
            throw Failure(.refused, "entry \(number) of the audit list is not as it was written: \(reason)")
        }
    }

    private static func text(_ rows: [AuditLog.Entry], _ verification: AuditLog.Verification) -> String {
        var lines = rows.map { entry in
            "\(entry.number)  \(entry.date)  \(entry.act)  \(entry.account.singleLine)  \(entry.line.singleLine)  "
                + "\(entry.actor.singleLine)  \(entry.detail.singleLine)"
        }
        if case .intact(let count, let digest) = verification {
            lines.append("\(count) entries, intact; last digest \(digest)")
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func json(_ rows: [AuditLog.Entry], _ verification: AuditLog.Verification) -> JSON {
        let isIntact = if case .intact = verification { true } else { false }
        return .object([
            (
                "entries",
                .array(
                    rows.map { entry in
                        .object([
                            ("number", .number(Int64(entry.number))), ("date", .string(entry.date)),
                            ("act", .string(entry.act)), ("account", .string(entry.account)),
                            ("line", .string(entry.line)), ("actor", .string(entry.actor)),
                            ("detail", .string(entry.detail)),
                        ])
                    })
            ), ("intact", .bool(isIntact)),
        ])
    }
}
