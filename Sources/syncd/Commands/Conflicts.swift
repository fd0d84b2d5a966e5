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
