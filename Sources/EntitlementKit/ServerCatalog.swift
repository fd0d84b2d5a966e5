import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import Synchronization

/// The catalogue of the server, with a copy in the shop's folder.
///
/// The bundled file counts until the server has answered for the first time, if the server has no catalogue, and until
/// the next answer if the app names another server or an update of the app has changed the file. A catalogue is
/// verified before it replaces the one in use.
final class ServerCatalog: Sendable {
    /// The content of the file.
    private struct Copy: Codable {
        /// The address of the server.
        var server: String
        /// The entity tag.
        var tag: String?
        /// The catalogue, as the server sent it.
        var catalog: String
        /// The bundled file that the catalogue replaced.
        var bundled: Data?
    }

    private struct State {
        /// The entity tag of the catalogue in use; `nil` for the bundled file.
        var tag: String?
        /// The last answer that could not be used. It is not downloaded again.
        var refusal: (tag: String, error: ShopError)?
        /// The copy that could not be saved.
        var unsaved: Copy?
        /// True if the server's catalogue is in use.
        var isServers = false
    }

    /// The result of an update.
    struct Update {
        /// True if the catalogue in use was replaced.
        var isReplaced = false
        /// The reason for which the copy could not be saved; `nil` if it was. The next update tries again.
        var saveFailure: ShopError?
    }

    private let client: AccountClient
    private let store: EntitlementStore
    private let bundle: URL
    private let bundled: Catalog
    private let file: URL
    private let turns = Turns()
    private let state = Mutex(State())

    /// Creates the catalogue. Reads nothing.
    ///
    /// - Parameters:
    ///   - client: The client of the server.
    ///   - store: The store, which uses the bundled catalogue.
    ///   - bundle: The bundled file.
    ///   - folder: The folder for the copy.
    init(_ client: AccountClient, _ store: EntitlementStore, bundle: URL, folder: URL) {
        (self.client, self.store, self.bundle, bundled) = (client, store, bundle, store.catalog)
        file = folder.appending(path: "catalog.json")
    }

    /// Uses the copy, if there is one of this server that replaced the present bundled file.
    ///
    /// - Throws: ``ShopError`` if it cannot be read or used. The catalogue in use stays, and ``update()`` replaces the
    ///   copy.
    func restore() async throws(ShopError) {
        let copy: Copy
        do {
            guard FileManager.default.fileExists(atPath: file.path) else { return }
            copy = try JSONDecoder().decode(Copy.self, from: Data(contentsOf: file))
        } catch {
            throw ShopError(
                .catalog, "\(file.path.singleLine) is no copy of the server's catalogue: it is fetched again: \(error)")
        }
        guard copy.server == client.server, copy.bundled == (try bundledFile()) else { return }
        try await use(Array(copy.catalog.utf8))
        state.withLock { ($0.tag, $0.isServers) = (copy.tag, true) }
    }

    /// Fetches the catalogue if the server has another one than that in use, and uses it. If the server has none, the
    /// bundled file is used.
    ///
    /// - Throws: ``ShopError`` of kind `catalog` if the server's cannot be used, `offline` and others if it cannot be
    ///   fetched. The catalogue in use stays.
    func update() async throws(ShopError) -> Update {
        try await turns.exclusively { () async throws(ShopError) in
            let (known, refusal) = state.withLock { ($0.refusal?.tag ?? $0.tag, $0.refusal?.error) }
            let answer: AccountClient.CatalogAnswer
            do { answer = try await client.catalog(unless: known) } catch { throw ShopError(error) }
            switch answer {
            case .found(let bytes, let tag):
                try await use(bytes, tag: tag)
                let copy = Copy(
                    server: client.server, tag: tag, catalog: String(decoding: bytes, as: UTF8.self), bundled: nil)
                state.withLock { $0 = State(tag: tag, unsaved: copy, isServers: true) }
                return Update(isReplaced: true, saveFailure: save())
            case .unchanged:
                if let refusal { throw refusal }
                return Update(saveFailure: save())
            case .missing: return Update(isReplaced: try await useBundled())
            }
        }
    }

    /// Uses the catalogue that the server has sent, and remembers its tag if it cannot be used.
    private func use(_ bytes: [UInt8], tag: String?) async throws(ShopError) {
        do throws(ShopError) { try await use(bytes) } catch {
            if error.kind == .catalog, let tag { state.withLock { $0.refusal = (tag, error) } }
            throw error
        }
    }

    private func use(_ bytes: [UInt8]) async throws(ShopError) {
        let catalog: Catalog
        do { catalog = try Catalog(served: bytes) } catch { throw refusal("\(error)") }
        do { try await store.replaceCatalog(with: catalog) } catch {
            throw error.kind == .unsuitableStore ? refusal(error.message) : ShopError(error)
        }
    }

    private func refusal(_ reason: String) -> ShopError {
        ShopError(
            .catalog,
            "the catalogue of \(client.server) cannot be used, so the present one stays: \(reason): correct it "
                + "there (syncd catalog check), or update the app")
    }

    /// Deletes the copy, and uses the bundled file again.
    ///
    /// - Returns: `true` if another catalogue was in use.
    private func useBundled() async throws(ShopError) -> Bool {
        do {
            if FileManager.default.fileExists(atPath: file.path) { try FileManager.default.removeItem(at: file) }
        } catch {
            throw ShopError(
                .storage,
                "the server has no catalogue any more, and \(file.path.singleLine) cannot be deleted: \(error)",
                isTransient: true)
        }
        let isServers = state.withLock { $0.isServers }
        if isServers { do { try await store.replaceCatalog(with: bundled) } catch { throw ShopError(error) } }
        state.withLock { $0 = State() }
        return isServers
    }

    /// Saves the copy that is not saved yet, if there is one. Returns the reason if that fails.
    private func save() -> ShopError? {
        guard var copy = state.withLock({ $0.unsaved }) else { return nil }
        do throws(ShopError) {
            copy.bundled = try bundledFile()
            try write(copy)
        } catch {
            return error
        }
        state.withLock { $0.unsaved = nil }
        return nil
    }

    private func bundledFile() throws(ShopError) -> Data {
        do { return try Data(contentsOf: bundle) } catch {
            throw ShopError(.catalog, "\(bundle.path.singleLine) cannot be read: \(error)")
        }
    }

    private func write(_ copy: Copy) throws(ShopError) {
        do {
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(), withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
            let encoder = JSONEncoder()
            encoder.outputFormatting = .sortedKeys
            try encoder.encode(copy).write(to: file, options: .atomic)
        } catch {
            let isFull = (error as? CocoaError)?.code == .fileWriteOutOfSpace
            throw ShopError(
                isFull ? .full : .storage,
                "the server's catalogue cannot be saved to \(file.path.singleLine): \(error)", isTransient: true)
        }
    }
}
