// README begin
import EntitlementSync
import Entitlements
import FileStorage
import Foundation

func buyThreeMonths(of catalog: URL, phone: String, shared: String) async throws -> Access {
    let store = try await EntitlementStore(
        catalog: .json(at: catalog), local: .file(phone), remote: .file(shared), account: Account("alice"))

    try await store.record(.reported("com.back40.InsomniOwl.3monthsOfRandom"))  // durable when it returns
    try await store.sync()  // any other device of alice's can now restore

    let access = try await store.access(to: "random-owls")
    switch access {
    case .granted(let grant): print("owls until \(grant.until?.description ?? "for ever")")
    case .denied(.restoreNeeded): try await store.restore()
    case .denied(let why): print("no owls: \(why)")
    }
    return access
}
// README end
