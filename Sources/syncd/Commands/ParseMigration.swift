import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import SyncCore
import SyncServer
import SyncService

#if Parse
import ParseFacade
#endif

/// The files of a Parse export.
struct ParseImportOptions: ParsableArguments {
    static let title = "Options of the format parse-mongo"

    @Option(help: ArgumentHelp("The export of _User.", valueName: "file"))
    var users: String?

    @Option(help: ArgumentHelp("The export of _Session, whose sessions stay valid.", valueName: "file"))
    var sessions: String?

    @Option(
        name: .customLong("class"),
        help: ArgumentHelp(
            "The export of a class of objects, each of which a field links to its user. Can be repeated.",
            valueName: "name=file"))
    var classes: [String] = []

    @Option(
        name: .customLong("parse-field"),
        help: ArgumentHelp(
            "The field of the user that holds the end of a group of the catalogue, as for serve. Can be repeated.",
            valueName: "name=date:group"))
    var fields: [String] = []

    /// `true` if one of the options is used.
    var isUsed: Bool { users != nil || sessions != nil || !classes.isEmpty || !fields.isEmpty }
}

#if Parse
/// Imports the users, sessions and objects of a Parse app into a server's store.
struct ParseMigration {
    /// An export of one class.
    private struct Export {
        enum Kind: Equatable { case users, sessions, objects(String) }

        var kind: Kind
        var path: String

        var noun: (one: String, many: String) {
            switch kind {
            case .users: ("user", "users")
            case .sessions: ("session", "sessions")
            case .objects(let name): ("\(name) object", "\(name) objects")
            }
        }
    }

    /// The outcomes of one export.
    private struct Tally {
        var (added, present, refused) = (0, 0, 0)
        var leftOut: [String: Int] = [:]

        mutating func count(_ outcome: ParseImport.Outcome) {
            switch outcome {
            case .added: added += 1
            case .present: present += 1
            case .leftOut(let reason): leftOut[reason, default: 0] += 1
            case .refused: refused += 1
            }
        }

        var json: JSON {
            [
                "added": .number(added), "present": .number(present), "leftOut": .number(leftOut.values.reduce(0, +)),
                "refused": .number(refused),
            ]
        }
    }

    private let options: StoreOptions
    private let isDryRun: Bool
    private let configuration: ParseConfiguration
    private let catalog: Catalog?
    private let exports: [Export]
    private let url: StoreURL?
    private let mayCreate: Bool
    private let now = Timestamp(milliseconds: HostServices.system.now())
    private let progress = ImportProgress()

    /// Checks the options. Nothing is opened.
    init(
        _ parse: ParseImportOptions, isDryRun: Bool, _ options: StoreOptions, _ creation: CreationOptions
    ) throws {
        (self.options, self.isDryRun, mayCreate) = (options, isDryRun, creation.create)
        try options.refuseAccount()
        guard options.remoteText == nil else {
            throw Failure(.usage, "parse-mongo writes the server's own store (--local), not a remote: remove --remote")
        }
        guard options.clock.at == nil else {
            throw Failure(.usage, "--at does not apply to parse-mongo: sessions end by the server's clock")
        }
        let catalog = parse.fields.isEmpty ? nil : try options.catalog.load()
        self.catalog = catalog
        var configuration = try ParseConfiguration(applicationID: "import")
        try reading("parse-field", each: parse.fields) { try configuration.addField($0, catalog: catalog) }
        // Users come first, because the others belong to them.
        var exports: [Export] = []
        if let path = parse.users { exports.append(Export(kind: .users, path: path)) }
        if let path = parse.sessions { exports.append(Export(kind: .sessions, path: path)) }
        for text in parse.classes {
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            guard parts.count == 2 else {
                throw Failure(.usage, "--class must be NAME=FILE, not \"\(text.singleLine)\"")
            }
            try reading("class") { try configuration.addClass(parts[0]) }
            exports.append(Export(kind: .objects(parts[0]), path: parts[1]))
        }
        guard !exports.isEmpty else {
            throw Failure(.usage, "parse-mongo needs at least one of --users, --sessions and --class")
        }
        (self.configuration, self.exports) = (configuration, exports)
        url = try options.localText.map { try StoreURL($0, option: "--local") }
        guard isDryRun || url != nil else {
            throw Failure(.usage, "--local is required: the server's store, sqlite:FILE or postgres://HOST/DATABASE")
        }
    }

    func run() async throws {
        let store = try await url?.serverStore(isDryRun: isDryRun, mayCreate: mayCreate)
        defer { progress.clear() }
        if isDryRun { return try await dryRun(store) }
        guard let store else { throw StoreOptions.localIsMissing }
        // A damaged file is reported before anything is written.
        for export in exports { try await read(export, "checking") { _ in } }
        var service = ServiceConfiguration(name: "syncd", catalog: catalog)
        service.facade = catalog.map(FacadeRule.derivedPurchases)
        let parse = ParseImport(
            configuration,
            try await EntitlementService(
                store, configuration: service, passwords: PasswordHashing(threadCount: 1), onError: { warn("\($0)") }),
            try await AccountImport(store, isPreview: false))
        var tallies: [(Export, Tally)] = []
        for export in exports { tallies.append((export, try await add(export, with: parse))) }
        progress.clear()
        try show(tallies)
    }

    // MARK: Files

    /// Reads an export in batches. Objects that cannot be imported are reported by `body`.
    private func read(
        _ export: Export, _ verb: String, _ body: ([ExportReader.Object]) async throws -> Void
    ) async throws {
        let file = try FilePieces(export.path)
        var reader = ExportReader { try file.next() }
        var (batch, count) = ([ExportReader.Object](), 0)
        progress.begin(of: file.byteCount, "\(verb) \(export.noun.many)")
        do {
            while let object = try reader.next() {
                batch.append(object)
                guard batch.count >= ParseImport.batchCount else { continue }
                try await body(batch)
                count += batch.count
                batch = []
                progress.show(reader.byteCount, count)
            }
            try await body(batch)
        } catch let error as InputError {
            throw Failure(.failed, "\(export.path): \(error)")
        }
    }

    private func add(_ export: Export, with parse: ParseImport) async throws -> Tally {
        var tally = Tally()
        try await read(export, "importing") { batch in
            switch export.kind {
            case .users:
                try await add(batch, export, &tally, { try ExportedUser($0, configuration, now: now) }, parse.add)
            case .sessions:
                try await add(batch, export, &tally, { try ExportedSession($0, now: now) }, parse.add)
            case .objects(let name):
                try await add(batch, export, &tally, { try ExportedObject($0, now: now) }) {
                    try await parse.add($0, to: name)
                }
            }
        }
        return tally
    }

    /// Imports a batch, and reports what is refused.
    private func add<Element>(
        _ batch: [ExportReader.Object], _ export: Export, _ tally: inout Tally,
        _ parsed: (JSON) throws -> Element, _ write: ([Element]) async throws -> [ParseImport.Outcome]
    ) async throws {
        var (elements, objects) = ([Element](), [ExportReader.Object]())
        var outcomes: [(ExportReader.Object, ParseImport.Outcome)] = []
        for object in batch {
            do {
                elements.append(try parsed(object.value))
                objects.append(object)
            } catch let error as InputError {
                outcomes.append((object, .refused("\(error)")))
            }
        }
        outcomes += zip(objects, try await write(elements))
        for (object, outcome) in outcomes.sorted(by: { $0.0.line < $1.0.line }) {
            count(outcome, of: object, in: export, &tally)
        }
    }

    /// Counts an outcome, and reports an object that is refused.
    private func count(
        _ outcome: ParseImport.Outcome, of object: ExportReader.Object, in export: Export, _ tally: inout Tally
    ) {
        tally.count(outcome)
        guard case .refused(let reason) = outcome else { return }
        // The name of the object, as far as it has one.
        let texts = ["username", "_id", "objectId"].compactMap { object.value[$0]?.string?.singleLine }
        let name = texts.isEmpty ? "" : texts.count == 1 ? "\(texts[0]): " : "\(texts[0]) (\(texts[1])): "
        progress.clear()
        warn("\(export.path): line \(object.line): refused: \(name)\(reason)")
    }

    // MARK: Reports

    /// Prints the counts.
    ///
    /// - Throws: ``Failure`` with the exit code of a conflict if something was refused.
    private func show(_ tallies: [(export: Export, tally: Tally)]) throws {
        var lines: [String] = []
        for (export, tally) in tallies {
            let noun = export.noun
            lines.append(
                "\(plural(tally.added, noun.one, noun.many)) imported, \(tally.present) already there, "
                    + "\(tally.refused) refused")
            lines += tally.leftOut.sorted { $0.key < $1.key }.map { "  \($0.value) left out: \($0.key)" }
        }
        try options.output.show(
            .object(tallies.map { ($0.export.noun.many, $0.tally.json) }), or: lines.joined(separator: "\n"))
        let refused = tallies.reduce(0) { $0 + $1.tally.refused }
        guard refused == 0 else {
            throw Failure(
                .conflict,
                "\(plural(refused, "object")) of the export \(refused == 1 ? "was" : "were") refused, see above; the "
                    + "others need not be imported again")
        }
    }

    /// The number of sessions and objects of each user.
    private struct Belongings {
        var sessions: [String: Int] = [:]
        var objects: [String: [String: Int]] = [:]
    }

    private func dryRun(_ store: (any KeyValueBackend)?) async throws {
        let accounts = try await AccountImport(store ?? MemoryBackend(), isPreview: true)
        var belongings = Belongings()
        var tallies: [(export: Export, tally: Tally)] = []
        for export in exports where export.kind != .users {
            var tally = Tally()
            try await read(export, "reading") { batch in
                for object in batch {
                    count(preview(object, export.kind, &belongings), of: object, in: export, &tally)
                }
            }
            tallies.append((export, tally))
        }
        var users: Set<String> = []
        for export in exports where export.kind == .users {
            var (tally, holders) = (Tally(), [String: String]())
            try await read(export, "reading") { batch in
                for object in batch {
                    let outcome = try await preview(object, accounts, &holders, belongings)
                    count(outcome, of: object, in: export, &tally)
                }
            }
            users.formUnion(holders.values)
            tallies.insert((export, tally), at: 0)
        }
        for index in tallies.indices {
            let counts: [String: Int]
            switch tallies[index].export.kind {
            case .users: continue
            case .sessions: counts = belongings.sessions
            case .objects(let name): counts = belongings.objects[name] ?? [:]
            }
            for (user, count) in counts where !users.contains(user) {
                let account = try? accounts.account(user)
                if let account, try await accounts.state(of: account) == .imported { continue }
                tallies[index].tally.added -= count
                tallies[index].tally.leftOut["its user was not imported", default: 0] += count
            }
        }
        progress.clear()
        if !options.output.json { try writeOutput("dry run, nothing was written:\n".utf8) }
        try show(tallies)
    }

    /// The outcome for a session or an object, which is added to those of its user.
    private func preview(
        _ object: ExportReader.Object, _ kind: Export.Kind, _ belongings: inout Belongings
    ) -> ParseImport.Outcome {
        do throws(InputError) {
            if case .objects(let name) = kind {
                let user = try ExportedObject(object.value, now: now).user
                belongings.objects[name, default: [:]][user, default: 0] += 1
                return .added
            }
            let session = try ExportedSession(object.value, now: now)
            guard session.isUsable(at: now.milliseconds) else { return .leftOut("the session has ended") }
            belongings.sessions[session.user, default: 0] += 1
            return .added
        } catch {
            return .refused("\(error)")
        }
    }

    /// The outcome for a user. Prints what the user would get.
    private func preview(
        _ object: ExportReader.Object, _ accounts: AccountImport, _ holders: inout [String: String],
        _ belongings: Belongings
    ) async throws -> ParseImport.Outcome {
        let user: ExportedUser
        do throws(InputError) { user = try ExportedUser(object.value, configuration, now: now) } catch {
            return .refused("\(error)")
        }
        let outcome = try await outcome(of: user, accounts, &holders)
        if case .refused = outcome { return outcome }
        progress.clear()
        let line = options.output.json ? json(user, outcome, belongings).line : text(user, outcome, belongings)
        try writeOutput("\(line)\n".utf8)
        return outcome
    }

    private func outcome(
        of user: ExportedUser, _ accounts: AccountImport, _ holders: inout [String: String]
    ) async throws -> ParseImport.Outcome {
        let account: Account
        do throws(AccountImport.AccountRefusal) { account = try accounts.account(user.id) } catch {
            return .refused(error.reason)
        }
        switch try await accounts.state(of: account) {
        case .imported: return .present
        case .erased: return .leftOut("the account was erased")
        case .taken: return .refused("the object id is already the name of another account")
        case .absent: break
        }
        if let objection = try await accounts.objection(to: user.username, for: account) { return .refused(objection) }
        let names = [user.id, user.username].map(AccountGateway.folded)
        if holders[names[0]] == user.id { return .present }
        if let name = names.first(where: { holders[$0] != nil }) {
            let kind = name == names[0] ? "the object id" : "the username"
            return .refused("\(kind) is already the name of the user \(holders[name]?.singleLine ?? "") of this export")
        }
        for name in names { holders[name] = user.id }
        return .added
    }

    private func text(_ user: ExportedUser, _ outcome: ParseImport.Outcome, _ belongings: Belongings) -> String {
        var parts: [String]
        switch outcome {
        case .present: parts = ["already there"]
        case .leftOut(let reason): parts = ["left out: \(reason)"]
        default:
            switch user.access {
            case .password: parts = ["password kept"]
            case .anonymous: parts = ["anonymous"]
            case .reset: parts = ["password reset needed"]
            }
            parts += user.ends.sorted { $0.key < $1.key }.compactMap { group, dates in
                dates.last.map { "\(group) until \($0)" }
            }
        }
        if let count = belongings.sessions[user.id] { parts.append(plural(count, "session")) }
        for (name, counts) in belongings.objects.sorted(by: { $0.key < $1.key }) {
            if let count = counts[user.id] { parts.append(plural(count, "\(name) object", "\(name) objects")) }
        }
        return "\(user.username.singleLine) (\(user.id.singleLine)): " + parts.joined(separator: "; ")
    }

    private func json(_ user: ExportedUser, _ outcome: ParseImport.Outcome, _ belongings: Belongings) -> JSON {
        let access =
            switch user.access {
            case .password: "password"
            case .anonymous: "anonymous"
            case .reset: "reset"
            }
        let state =
            switch outcome {
            case .present: "present"
            case .leftOut: "leftOut"
            default: "added"
            }
        let ends = user.ends.sorted { $0.key < $1.key }.compactMap { group, dates in
            dates.last.map { (group.rawValue, JSON.string("\($0)")) }
        }
        let objects = belongings.objects.sorted { $0.key < $1.key }.compactMap { name, counts in
            counts[user.id].map { (name, JSON.number($0)) }
        }
        return [
            "username": .string(user.username), "objectId": .string(user.id), "outcome": .string(state),
            "access": .string(access), "expires": .object(ends), "sessions": .number(belongings.sessions[user.id] ?? 0),
            "objects": .object(objects),
        ]
    }
}
#endif
