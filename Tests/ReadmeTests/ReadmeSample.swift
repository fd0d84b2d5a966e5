// README begin
import CurlTransport  // or URLSessionTransport
import EntitlementSync
import Entitlements
import FileStorage
import HTTPStorage

// README end

/// The body is the rest of the README's sample.
func buyThreeMonths(catalog: Catalog, folder: String, server: String, password: String) async throws -> Access {
    // README begin
    let client = try AccountClient(server: server, transport: CurlClient())
    let tokens = SessionTokens(client, store: MemorySessionStore())
    try await tokens.begin(client.logIn("alice", password: password))

    let remote = try HTTPBackend(server: server, transport: CurlClient(), token: tokens.token(refused:))
    let store = try await EntitlementStore(catalog: catalog, local: .file(folder), remote: remote)
    try await store.logIn("alice")

    try await store.record(.reported("com.back40.InsomniOwl.3monthsOfRandom"))  // durable here, also offline
    try await store.sync()  // from now on every other device of alice's can restore it
    let access = try await store.access(to: "random-owls")  // granted until …, or denied and why
    // README end
    return access
}
