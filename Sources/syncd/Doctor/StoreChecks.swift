import EntitlementSync
import Entitlements
import Foundation
import SQLiteStorage
import SyncAgent
import SyncCore

/// The checks of a store on this machine, of a device or of a server. They read only.
struct StoreChecks {
    let url: StoreURL
    private let location: StoreLocation
    private let command: Setting.Command
    private let user: ServiceUser?

    /// - Parameter user: the user of the server for whom root checks.
    /// - Returns: `nil` for a store that does not last.
    init?(_ url: StoreURL, of command: Setting.Command, for user: ServiceUser? = nil) {
        guard let location = url.location else { return nil }
        (self.url, self.location, self.command, self.user) = (url, location, command, user)
    }

    /// The processes that have the store open.
    var users: [Int32] { url.isDatabase ? ProcessTable.users(ofFile: location.path) : [] }

    /// `true` if this is root and the store belongs to another user, for whose other files checks would mislead.
    var isOfOtherUser: Bool {
        guard geteuid() == 0, let files = try? StoreFiles(location) else { return false }
        return files.owner != 0
    }

    /// Performs all checks. Returns `true` if the store exists and is whole.
    func examine(into examination: inout Examination) async -> Bool {
        var files: StoreFiles?
        let other = command.remedyForUser
        let owners = await examination.check(.storeFiles, remedy: other) {
            let found = try StoreFiles(location)
            files = found
            return Self.owners(found)
        }
        let areOwnersWrong = owners == .failed
        if let files, !areOwnersWrong {
            await examination.check(.storeAccess) { access(files) }
        } else {
            examination.skip(.storeAccess, because: "see store-files")
        }
        await examination.check(.diskSpace) { try DiskSpace(at: existingFolder).verdict }
        await examination.check(.storeLock, remedy: other) { try lock() }
        let isWhole = await examination.check(.store, remedy: "see the store's files, and restore it from a backup") {
            do { return try await content(files) } catch let error as BackendError
                where areOwnersWrong && error.kind == .permissionDenied
            {
                return .skipped("see store-files: \(error.message)")
            }
        }
        return isWhole == .ok
    }

    // MARK: Files

    private static func owners(_ files: StoreFiles) -> Verdict {
        guard files.root != nil || !files.items.isEmpty else { return .skipped("there is no store yet") }
        let (owner, foreign) = (userName(files.owner), files.foreign)
        guard let first = foreign.first else {
            return .ok("\(plural(files.items.count, "file")) of user \(owner)")
        }
        let rest = foreign.count > 1 ? " and \(plural(foreign.count - 1, "other file"))" : ""
        let verb = foreign.count > 1 ? "belong" : "belongs"
        let finding = "\(first.path)\(rest) \(verb) to user \(userName(first.owner)), but the store to user \(owner)"
        let spelling = ServiceUser.chownArguments(files.owner, group: files.group)
        let paths =
            foreign.contains { $0.isFolder } || foreign.count > 8
            ? "-R \(spelling) \(quoted(files.root?.path ?? files.parentPath))"
            : "\(spelling) " + foreign.map { quoted($0.path) }.joined(separator: " ")
        let isService = geteuid() == 0 && foreign.count == files.items.count && first.owner == 0
        guard !isService else {
            return .warning(
                "the store is in a folder of user \(owner), but all of it belongs to root",
                remedy: "if \(owner) is to use it: sudo chown \(paths)")
        }
        return .failed(finding, remedy: "sudo chown \(paths)")
    }

    private func access(_ files: StoreFiles) -> Verdict {
        guard let folder = files.parent else {
            return .failed(
                "the folder \(files.parentPath) does not exist", remedy: "mkdir -p \(quoted(files.parentPath))")
        }
        guard folder.isFolder || files.root != nil else {
            return .failed("\(files.parentPath) is not a folder", remedy: "choose another path for the store")
        }
        let isDatabase = files.root?.isFolder != true
        var needed = files.items.map { ($0.path, $0.isFolder ? R_OK | W_OK | X_OK : R_OK | W_OK) }
        // SQLite creates files beside the database, and every command creates a missing store.
        if isDatabase { needed.insert((files.parentPath, W_OK | X_OK), at: 0) }
        let actor = user?.description ?? "user \(userName(geteuid()))"
        for (path, mode) in needed {
            if let obstacle = user?.obstacle(to: path, mode) {
                return .failed("\(actor) cannot write \(path): \(obstacle.reason)", remedy: obstacle.remedy)
            }
            guard user == nil, let reason = obstacle(to: path, mode) else { continue }
            let owner = userName(files.items.first { $0.path == path }?.owner ?? folder.owner)
            let taking = ServiceUser.chownArguments(geteuid(), group: getegid())
            return .failed(
                "\(actor) cannot write \(path): \(reason); it belongs to user \(owner)",
                remedy: errno == EROFS
                    ? "mount the file system for writing"
                    : "run syncd as user \(owner), or: sudo chown -R \(taking) \(quoted(path))")
        }
        guard user != nil || geteuid() != 0 || files.owner == 0 else {
            let owner = userName(files.owner)
            return .warning(
                "this is root, who may write everywhere, but the store belongs to user \(owner)",
                remedy: "sudo -u \(owner) syncd doctor \(command.rawValue), with the same options")
        }
        return .ok("\(actor) can read and write \(location.path)")
    }

    /// The deepest folder on the path of the store that exists.
    private var existingFolder: String {
        var folder = URL(filePath: location.path).deletingLastPathComponent()
        while folder.path != "/", Foundation.access(folder.path, F_OK) != 0 { folder.deleteLastPathComponent() }
        return folder.path
    }

    // MARK: Locks

    private func lock() throws -> Verdict {
        let path = StoreLock.path(ofStore: location.path)
        guard case .held(let written) = try StoreLock.state(ofStore: location.path) else {
            guard !users.isEmpty else { return .ok("no process holds the lock or has the store open") }
            return .ok("open in \(users.map(ProcessTable.description).joined(separator: ", "))")
        }
        let lockers = ProcessTable.lockers(ofFile: path)
        guard let holder = written.flatMap({ lockers.isEmpty || lockers.contains($0) ? $0 : nil }) ?? lockers.only
        else {
            return .failed("a process holds \(path)", remedy: "end it: fuser \(quoted(path)) shows its id")
        }
        if ProcessTable.name(of: holder) == Self.programName {
            return .ok("syncd run keeps the store: process \(holder)")
        }
        return .failed(
            "\(ProcessTable.description(of: holder)) holds \(path), so syncd run cannot start",
            remedy: "end it: kill \(holder)")
    }

    private static let programName = "syncd"

    // MARK: Content

    private func content(_ files: StoreFiles?) async throws -> Verdict {
        if let reason = try missingLog() {
            return .warning("\(url.text): \(reason)", remedy: "syncd store check \(quoted(url.text)) reads it")
        }
        let recovery = "end syncd, then: syncd store recover \(quoted(url.text)) NEW-URL"
        do throws(BackendError) {
            let (count, damage) = try await survey()
            guard let first = damage.first else { return .ok("\(url.text): \(plural(count, "key")), whole") }
            let total = plural(damage.count, "damaged entry or page", "damaged entries or pages")
            return .failed("\(url.text): \(total), \(plural(count, "key")) whole: \(first)", remedy: recovery)
        } catch {
            switch error.kind {
            case .missing where files?.parent != nil:
                return .warning(
                    "there is no store at \(url.text)",
                    remedy: "check the path; the first start of syncd \(command.rawValue) creates it")
            case .missing: return .skipped("there is no store: see store-access")
            case .damaged, .notAStore: return .failed(error.message, remedy: recovery)
            case .busy:
                let users = ProcessTable.users(ofFile: location.path).map(ProcessTable.description)
                return .failed(
                    "another process keeps \(url.text) locked: \(error.message)",
                    remedy:
                        "wait for it, or end it: \(users.isEmpty ? "none is visible" : users.joined(separator: ", "))")
            default: throw error
            }
        }
    }

    /// The number of whole entries, and one line for each damage.
    private func survey() async throws(BackendError) -> (count: Int, damage: [String]) {
        guard case .local(.sqlite, let path) = url.place else {
            let survey = try await StoreSurvey.of(url.existing())
            return (survey.wholeCount, survey.damage.map(\.message))
        }
        let report = try await SQLiteBackend(path: path, creating: .never).integrityCheck()
        return (report.wholeCount, report.damagedKeys.map { "key \($0.singleLine)" } + report.problems)
    }

    /// The reason why SQLite would create files if it opened the database; `nil` if it would not.
    private func missingLog() throws -> String? {
        guard url.isDatabase, let file = FileHandle(forReadingAtPath: location.path) else { return nil }
        defer { try? file.close() }
        let header = Array(try file.read(upToCount: 20) ?? Data())
        guard header.count == 20, !StoreFile.hasNoLog(header: header), header[18] == 2 else { return nil }
        let missing = ["-wal", "-shm"].filter { Foundation.access(location.path + $0, F_OK) != 0 }
        guard let first = missing.first else { return nil }
        return "\(location.path)\(first) is missing, as in a copy of a store in use, so the store was not opened"
    }
}

/// A word for a command line of the shell.
func quoted(_ word: String) -> String {
    let isPlain = word.unicodeScalars.allSatisfy { scalar in
        scalar.properties.isAlphabetic || ("0"..."9").contains(scalar) || "/._-:+@%,=".unicodeScalars.contains(scalar)
    }
    return isPlain && !word.isEmpty ? word : "'" + word.replacing("'", with: #"'\''"#) + "'"
}

extension Collection {
    /// The only element; `nil` if there is none, or more than one.
    fileprivate var only: Element? { count == 1 ? first : nil }
}
