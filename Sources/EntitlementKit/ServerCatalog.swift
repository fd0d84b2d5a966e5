import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import Synchronization

/// The catalogue of the server, with a copy in the shop's folder.
///
/// The bundled file counts until the server has answered for the first time, and again if the app names another server.
/// A catalogue is verified before it replaces the one in use.
final class ServerCatalog: Sendable {
    /// The content of the file.
    private struct Copy: Codable {
        /// The address of the server.
        var server: String
        /// The entity tag.
        var tag: String?
        /// The catalogue, as the server sent it.
        var catalog: String
    }

    private let client: AccountClient
    private let store: EntitlementStore
    private let file: URL
    private let turns = Turns()
    /// The entity tag of the catalogue in use; `nil` for the bundled file.
    private let tag = Mutex<String?>(nil)

    /// Creates the catalogue. Reads nothing.
    init(_ client: AccountClient, _ store: EntitlementStore, folder: URL) {
        (self.client, self.store, file) = (client, store, folder.appending(path: "catalog.json"))
    }

    /// Uses the copy, if there is one of this server.
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
        guard copy.server == client.server else { return }
        try await use(Array(copy.catalog.utf8))
        tag.withLock { $0 = copy.tag }
    }

    /// Fetches the catalogue if the server has another one than that in use, and uses it.
    ///
    /// - Returns: `true` if the catalogue was replaced.
    /// - Throws: ``ShopError`` of kind `catalog` if the server's cannot be used, `offline` and others if it cannot be
    ///   fetched. The catalogue in use stays.
    func update() async throws(ShopError) -> Bool {
        try await turns.exclusively { () async throws(ShopError) in
            let answer: AccountClient.CatalogAnswer
            do { answer = try await client.catalog(unless: tag.withLock { $0 }) } catch { throw ShopError(error) }
            guard case .found(let bytes, let newTag) = answer else { return false }
            try await use(bytes)
            try keep(Copy(server: client.server, tag: newTag, catalog: String(decoding: bytes, as: UTF8.self)))
            tag.withLock { $0 = newTag }
            return true
        }
    }

    private func use(_ bytes: [UInt8]) async throws(ShopError) {
        let catalog: Catalog
        do { catalog = try Catalog(json: bytes) } catch {
            throw ShopError(
                .catalog,
                "the catalogue of \(client.server) cannot be used, so the present one stays: \(error): correct it "
                    + "there (syncd catalog check), or update the app")
        }
        do { try await store.replaceCatalog(with: catalog) } catch { throw ShopError(error) }
    }

    private func keep(_ copy: Copy) throws(ShopError) {
        do {
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(), withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
            try JSONEncoder().encode(copy).write(to: file, options: .atomic)
        } catch {
            let isFull = (error as? CocoaError)?.code == .fileWriteOutOfSpace
            throw ShopError(
                isFull ? .full : .storage,
                "the server's catalogue cannot be saved to \(file.path.singleLine): \(error)", isTransient: true)
        }
    }
}
