// README begin
import EntitlementSync
import Entitlements
import FileStorage
import Foundation

func buyThreeMonths(of catalog: URL, phone: String, shared: String) async throws -> Access {
    let store = try await EntitlementStore(
        catalog: .json(at: catalog), local: .file(phone), remote: .file(shared, creating: .whenNeeded),
        account: Account("alice"))

    try await store.record(.reported("com.back40.InsomniOwl.3monthsOfRandom"))  // durable when it returns
    try await store.sync()  // any other device of alice's can now restore

    let access = try await store.access(to: "random-owls")
    if access == .denied(.restoreNeeded) {  // a new device that never met the shared store
        try await store.restore()
        return try await store.access(to: "random-owls")
    }
    return access  // .granted(until, because), or .denied and why
}
// README end
