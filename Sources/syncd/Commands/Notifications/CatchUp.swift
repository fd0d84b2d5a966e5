import ArgumentParser
import Entitlements
import Foundation
import StoreEvidence
import SyncCore
import SyncServer
import SyncService

struct CatchUp: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "catch-up", abstract: "Record what stores have stated while the server could not be reached.",
        discussion: """
            Reads the history of notifications from the App Store Server API. Every notification is verified and \
            recorded as if Apple had sent it to the server. With --app-store-transactions, all transactions of the \
            customers who made these are read too, for an outage that is longer than Apple's history. With \
            --play-service-account, the refunds of the last 30 days are read from Google Play, and with --play-tokens \
            the state of each subscription and one-time product, which is also acknowledged. Google has no history of \
            notifications, and the server does not keep purchase tokens: take them from the purchases of your app or \
            from the Play Console.

            The command may be repeated: what is known changes nothing. The server may run. Pass the catalogue and \
            the ownership rule of the server; its trust policy stays as it is. Prints the number of statements by \
            their outcome. If a store's API fails, exits with 1 and prints the command to repeat, which starts over. \
            If a ledger has no room, or a purchase cannot be acknowledged, goes on with the others and exits with 1. \
            If every statement was refused, exits with 4.

            Examples:
              syncd notifications catch-up --since 2026-01-31 --store sqlite:/var/lib/syncd/store.sqlite \\
                --app-store-key key.p8 --app-store-key-id 2X9R4HXF34 --app-store-issuer ISSUER \\
                --app-store-bundle com.example.app --app-store-app-id 1234
            """)

    @OptionGroup var place: ServerStoreOptions

    @Option(help: ArgumentHelp("The beginning of the outage: RFC 3339, or a plain date.", valueName: "time"))
    var since: String

    @Option(help: ArgumentHelp("The end of the outage; by default now.", valueName: "time"))
    var until: String?

    @Option(help: ArgumentHelp("A file with transaction IDs of the App Store, one on each line.", valueName: "file"))
    var appStoreTransactions: String?

    @Option(help: ArgumentHelp("A file with purchase tokens of Google Play, one on each line.", valueName: "file"))
    var playTokens: String?

    @Option(help: .setting("play-package")) var playPackage: String?

    @Option(
        help: ArgumentHelp(
            "The server's rule for a purchase that two accounts claim: keepWithFirst, transfer or share "
                + "(SYNCD_OWNERSHIP; default: keepWithFirst).", valueName: "rule"))
    var ownership: String?

    @OptionGroup(title: AppStoreAPIOptions.title) var appStore: AppStoreAPIOptions
    @OptionGroup(title: PlayAPIOptions.title) var playAPI: PlayAPIOptions
    @OptionGroup(title: CatalogOptions.title) var catalog: CatalogOptions
    @OptionGroup var secrets: SecretOptions

    func run() async throws {
        let now = HostServices.system.now()
        let start = try date(since, option: "--since")?.milliseconds ?? now
        let end = try date(until, option: "--until")?.milliseconds ?? now
        guard start < end else { throw Failure(.usage, "--since must be earlier than --until, or than now without it") }
        var configuration = try serviceConfiguration()
        let access = try appStore.access(secrets)
        configuration.evidence.appStore = access?.verifier
        let play = try lookUps(&configuration)
        guard access != nil || play != nil else {
            throw Failure(.usage, "pass --app-store-key for the App Store, or --play-service-account for Google Play")
        }
        let customers = try appStoreTransactions.map { try ids(in: $0, "a transaction ID", longest: 255) } ?? []
        guard access != nil || customers.isEmpty else { throw Failure.needs("app-store-transactions", "app-store-key") }
        let intake = try await NotificationIntake(
            try place.open(), configuration, host: .system, onError: { warn("\($0)".singleLine) })
        var report = CatchUpReport()
        do {
            if let access {
                try await access.client.notifications(from: start, to: end) { page in
                    for payload in page { try await report.count { try await intake.receive(signedPayload: payload) } }
                }
                for customer in customers {
                    try await readTransactions(of: customer, access.client, into: intake, &report)
                }
            }
            if let play {
                for token in play.tokens {
                    try await report.count { try await intake.lookUp(packageName: play.package, purchaseToken: token) }
                }
                try await readRefunds(play, from: start, now: now, into: intake, &report)
            }
        } catch {
            try writeOutput(report.text.utf8)
            throw Self.failure(error)
        }
        try writeOutput(report.text.utf8)
        if let failure = report.failure { throw failure }
    }

    private func serviceConfiguration() throws -> ServiceConfiguration {
        var configuration = ServiceConfiguration(name: "syncd notifications")
        if catalog.file != nil || environmentVariable("SYNCD_CATALOG") != nil {
            configuration.catalog = try catalog.load()
        }
        let rule = ownership ?? environmentVariable("SYNCD_OWNERSHIP")
        configuration.ownership = try Setting.choice(rule, of: "ownership") ?? configuration.ownership
        return configuration
    }

    private func readTransactions(
        of customer: String, _ client: AppStoreServerClient, into intake: NotificationIntake,
        _ report: inout CatchUpReport
    ) async throws {
        do {
            _ = try await client.transactions(ofCustomerWith: customer) { page in
                for transaction in page {
                    try await report.count { try await intake.receive(signedTransaction: transaction) }
                }
            }
        } catch let error as StoreAPIError where error.kind == .notFound {
            report.countUnknown()
        }
    }

    /// The app on Google Play, and the purchases to look up.
    private struct PlayApp {
        var package: String
        var tokens: [String]
        var client: GooglePlayClient
    }

    /// The app on Google Play; `nil` without a service account.
    private func lookUps(_ configuration: inout ServiceConfiguration) throws -> PlayApp? {
        guard let path = playAPI.path else {
            guard playTokens == nil, playPackage == nil else {
                throw Failure(.usage, "Google Play needs --play-service-account and --play-package")
            }
            return nil
        }
        guard let package = playPackage ?? environmentVariable("SYNCD_PLAY_PACKAGE") else {
            throw Failure.needs("play-service-account", "play-package")
        }
        let tokens = try playTokens.map { try ids(in: $0, "a purchase token", longest: 4_096) } ?? []
        let client = try playAPI.client(path, package, secrets)
        configuration.evidence.googlePlay = GooglePlayVerifier(packageNames: [package])
        configuration.evidence.lookup = client
        return PlayApp(package: package, tokens: tokens, client: client)
    }

    /// Google lists refunds of the last 30 days.
    private static let refundPeriod: Int64 = 30 * 86_400_000

    private func readRefunds(
        _ play: PlayApp, from start: Int64, now: Int64, into intake: NotificationIntake, _ report: inout CatchUpReport
    ) async throws {
        // A minute less, since Google compares with its own clock.
        let oldest = now - Self.refundPeriod + 60_000
        if start < oldest {
            warn("Google Play lists the refunds of the last 30 days only, so earlier ones are not read")
        }
        try await play.client.voidedPurchases(since: max(start, oldest)) { page in
            for refund in page {
                try await report.count {
                    try await intake.receive(
                        voidedOrder: refund.orderID, purchaseToken: refund.purchaseToken,
                        at: Timestamp(milliseconds: refund.voidedAt))
                }
            }
        }
    }

    /// Reads a file with one ID on each line. Empty lines are skipped.
    private func ids(in path: String, _ description: String, longest: Int) throws -> [String] {
        var ids: [String] = []
        for (index, line) in try readText(path).split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let id = line.trimmingCharacters(in: .whitespacesAndNewlines)
            guard !id.isEmpty else { continue }
            guard id.utf8.count <= longest, id.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
                throw Failure(
                    .usage,
                    "\(path.singleLine): line \(index + 1) is not \(description): 1 to \(longest) characters of "
                        + "ASCII without spaces")
            }
            ids.append(id)
        }
        guard !ids.isEmpty else { throw Failure(.usage, "\(path.singleLine) has no IDs") }
        return ids
    }

    /// The failure after a part of the notifications was recorded, with the command to repeat.
    private static func failure(_ error: any Error) -> Failure {
        let apiError = error as? StoreAPIError
        if let apiError, apiError.kind == .invalidArgument { return Failure(.usage, apiError.message) }
        let failure = apiError.map { Failure(.failed, $0.message) } ?? Failure(error)
        let words = ["syncd"] + CommandLine.arguments.dropFirst()
        return Failure(
            failure.code,
            "\(failure.message); what was received is recorded, and changes nothing when you repeat: "
                + words.map(quoted).joined(separator: " "))
    }

    /// Quotes a word for a shell, unless it needs no quotes.
    private static func quoted(_ word: String) -> String {
        let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/:=,@+%")
        guard word.isEmpty || !word.allSatisfy(plain.contains) else { return word }
        return "'" + word.singleLine.replacing("'", with: "'\\''") + "'"
    }
}

/// The number of statements by their outcome.
struct CatchUpReport {
    private var received = 0
    private var counts: [String: Int] = [:]
    private var unknown = 0
    /// The number of recorded purchases that could not be acknowledged, and the reason of the first.
    private var unacknowledged: (count: Int, reason: String) = (0, "")
    /// The number of refusals by their check, and the first reason of each.
    private var refusals: [String: (count: Int, reason: String)] = [:]

    /// True if a statement was dated ahead of the clock.
    private var isAhead = false

    private var refused: Int { refusals.values.reduce(0) { $0 + $1.count } }

    /// The failure of a finished command; `nil` if nothing has to be repeated and not every statement was refused.
    var failure: Failure? {
        if isAhead {
            return Failure(
                .failed, "statements are dated ahead of this machine's clock; check the clock, and repeat the command")
        }
        if let full = counts[EvidenceNote.Outcome.full.rawValue] {
            return Failure(
                .failed,
                "\(full) could not be kept, because a ledger or the room for facts without an owner is full; see "
                    + "syncd notifications, or raise the limits of the server")
        }
        if unacknowledged.count > 0 {
            return Failure(
                .failed,
                "\(unacknowledged.count) of the recorded purchases could not be acknowledged, and Google refunds what "
                    + "is not acknowledged within three days; correct the cause, and repeat the command: "
                    + unacknowledged.reason)
        }
        return refused > 0 && refused == received ? Failure(.refused, "every statement was refused") : nil
    }

    /// Counts the outcome of `receive`.
    ///
    /// - Throws: Errors that end the command: those of the store and of the API.
    mutating func count(_ receive: () async throws -> EvidenceNote.Outcome) async throws {
        do {
            counts[try await receive().rawValue, default: 0] += 1
        } catch let error as AcknowledgementFailure {
            counts[error.outcome.rawValue, default: 0] += 1
            received += 1
            guard let cause = error.cause as? StoreAPIError, cause.kind == .notFound || cause.kind == .rejected else {
                throw error.cause
            }
            if unacknowledged.count == 0 { unacknowledged.reason = cause.message.singleLine(atMost: 1_000) }
            unacknowledged.count += 1
            return
        } catch let error as EvidenceError {
            isAhead = isAhead || error.isTransient
            refusals[error.check.rawValue, default: (0, error.reason)].count += 1
        } catch let error as StoreAPIError where error.kind == .notFound {
            countUnknown()
            return
        } catch let error as StoreAPIError where error.kind == .rejected {
            // For example an unusable purchase token. It must not keep the others out.
            refusals["store", default: (0, error.message)].count += 1
        }
        received += 1
    }

    /// Counts a purchase that the store does not know, or no longer keeps.
    mutating func countUnknown() {
        received += 1
        unknown += 1
    }

    /// One line for each count.
    var text: String {
        var lines = ["received: \(received)"]
        lines += ["recorded", "parked", "ignored"].map { "\($0): \(counts[$0] ?? 0)" }
        if unknown > 0 { lines.append("unknown to the store: \(unknown)") }
        if let count = counts[EvidenceNote.Outcome.full.rawValue] { lines.append("without room: \(count)") }
        if unacknowledged.count > 0 {
            lines.append("not acknowledged: \(unacknowledged.count), the first because \(unacknowledged.reason)")
        }
        lines.append("refused: \(refused)")
        for (check, refusal) in refusals.sorted(by: { $0.key < $1.key }) {
            lines.append("  \(check): \(refusal.count), the first because \(refusal.reason.singleLine)")
        }
        return lines.joined(separator: "\n") + "\n"
    }
}
