import EntitlementSync
import Entitlements
import SyncCore
import UbiquitousStorage

// Docs begin
/// The purchases of an app without a server. iCloud passes them on to the buyer's other devices.
final class Purchases: Sendable {
    let store: EntitlementStore
    private let cloud: UbiquitousBackend

    /// - Parameters:
    ///   - local: This device's own store, such as `FileBackend(folder:)`.
    ///   - iCloud: `ICloudStore()`.
    init(_ catalog: Catalog, local: any KeyValueBackend, iCloud: any UbiquitousStore) async throws {
        cloud = UbiquitousBackend(iCloud, boundIn: local)
        store = try await EntitlementStore(
            catalog: catalog, local: local, remote: cloud, account: Account("icloud"))
    }

    /// Records a purchase. It counts on this device at once, with or without iCloud.
    func record(_ product: ProductID, transaction: TransactionID, date: Timestamp) async throws {
        try await store.record(.reported(product, transaction: transaction, date: date))
    }

    /// Exchanges purchases with iCloud's local copy. Call it at launch, when the app comes to the front, and after a
    /// purchase. Keep a task with `store.run()` while the app is open: it syncs when iCloud delivers something.
    func sync() async throws {
        // Only a device with purchases creates the store. A new device waits for iCloud's first download instead.
        if try await !store.localLedgers().account.isEmpty { try await cloud.create() }
        try await store.sync()
    }

    /// Continues with the iCloud account that is signed in now. Call it if the buyer wants to copy the purchases of
    /// this device there: after a sync that failed with `permissionDenied` or, for some days, with `missing`.
    func continueWithCurrentICloudAccount() async throws {
        try await cloud.create(replacingBinding: true)
        try await sync()
    }
}
// Docs end
