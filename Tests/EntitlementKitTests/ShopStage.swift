import EntitlementSyncStoreKit
import Entitlements
import Foundation
import SyncCore
import TestSupport
import Testing

@testable import EntitlementKit

/// A folder with a catalogue, and shops on devices in it.
struct ShopStage {
    static let catalogue = """
        {"products":[{"id":"owls.3months","type":"nonRenewing","group":"owls","duration":"P3M",
                      "names":{"en":"3 months of owls"}},
                     {"id":"owls.lifetime","type":"nonConsumable","requiresAccount":true}],
         "entitlements":[{"id":"owls","grantedBy":["group:owls"]},{"id":"all","grantedBy":["product:owls.lifetime"]}]}
        """
    static let password = "correct horse battery staple"

    let folder: TemporaryFolder
    let catalogue: URL

    init(catalogue text: String = Self.catalogue) throws {
        folder = try TemporaryFolder()
        catalogue = URL(filePath: folder.path(of: "catalog.json"))
        try Data(text.utf8).write(to: catalogue)
    }

    func server(_ options: [String] = []) throws -> ServerProcess {
        try ServerProcess(
            store: "sqlite:\(folder.path(of: "server.sqlite"))", options: ["--catalog", catalogue.path] + options)
    }

    /// A shop on a device.
    ///
    /// - Parameters:
    ///   - device: The name of the device's folder.
    ///   - source: The App Store on that device; `nil` for none.
    ///   - change: Replaces further parts of the shop.
    @MainActor
    func shop(
        _ device: String, server: String?, source: (any TransactionSource)? = nil,
        _ change: (inout ShopSettings) -> Void = { _ in }
    ) -> Shop {
        var settings = ShopSettings(
            catalog: catalogue, server: server, folder: URL(filePath: folder.path(of: device)),
            environment: nil)
        settings.language = "en"
        settings.source = source
        change(&settings)
        return Shop(settings)
    }
}

/// Waits until `condition` holds. The time limit of the suite is that of the wait.
@MainActor
func until(_ condition: @MainActor () -> Bool) async {
    while !condition() { await Task.yield() }
}

/// Runs a shop during `body`.
@MainActor
func whileRunning<Value>(_ shop: Shop, _ body: @MainActor () async throws -> Value) async throws -> Value {
    let running = Task { await shop.run() }
    await until { shop.isRunning }
    let result: Result<Value, any Error>
    do { result = .success(try await body()) } catch { result = .failure(error) }
    running.cancel()
    await running.value
    return try result.get()
}

/// Expects an error of a kind, whose description contains `text`.
@MainActor
func expect(
    _ kind: ShopError.Kind, naming text: String? = nil, sourceLocation: SourceLocation = #_sourceLocation,
    _ body: @MainActor () async throws -> Void
) async {
    let error = await #expect(throws: ShopError.self, sourceLocation: sourceLocation) { try await body() }
    #expect(error?.kind == kind, "\(String(describing: error))", sourceLocation: sourceLocation)
    if let text { #expect(error?.description.contains(text) == true, sourceLocation: sourceLocation) }
}
