import EntitlementSyncStoreKit
import Entitlements
import Foundation
import SyncCore
import Synchronization
import TestSupport

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

    init() throws {
        folder = try TemporaryFolder()
        catalogue = URL(filePath: folder.path(of: "catalog.json"))
        try Data(Self.catalogue.utf8).write(to: catalogue)
    }

    func server() throws -> ServerProcess {
        try ServerProcess(
            store: "sqlite:\(folder.path(of: "server.sqlite"))", options: ["--catalog", catalogue.path])
    }

    /// A shop on a device.
    ///
    /// - Parameters:
    ///   - device: The name of the device's folder.
    ///   - source: The App Store on that device; `nil` for none.
    @MainActor
    func shop(_ device: String, server: String?, source: (any TransactionSource)? = nil) -> Shop {
        var settings = ShopSettings(
            catalog: catalogue, server: server, folder: URL(filePath: folder.path(of: device)),
            environment: .production)
        settings.source = source
        return Shop(settings)
    }
}

/// An App Store with some transactions that the app has not finished.
final class SmallAppStore: TransactionSource {
    private let transactions: [StoreKitTransaction]
    private let state = Mutex<Set<UInt64>>([])

    init(_ transactions: [StoreKitTransaction]) { self.transactions = transactions }

    var finished: Set<UInt64> { state.withLock { $0 } }

    func updates(_ receive: @Sendable (StoreKitTransaction) async -> Void) async {}
    func unfinished() async -> [StoreKitTransaction] { transactions.filter { !finished.contains($0.id) } }
    func history() async -> [StoreKitTransaction] { transactions }
    func finish(_ transaction: StoreKitTransaction) async { state.withLock { _ = $0.insert(transaction.id) } }
    func refresh() async throws {}
}
