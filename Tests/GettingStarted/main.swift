import CurlTransport
import EntitlementSync
import Entitlements
import FileStorage
import Foundation
import HTTPStorage

let arguments = Array(CommandLine.arguments.dropFirst())
let command = arguments.count == 3 ? arguments[2] : nil
guard (2...3).contains(arguments.count), [nil, "buy", "restore", "sync"].contains(command) else {
    print("usage: owls SERVER DEVICE [buy | restore | sync]")
    exit(2)
}
do {
    try await run(server: arguments[0], device: arguments[1], command: command)
} catch {
    print("owls: \(error)")
    exit(1)
}

func run(server: String, device: String, command: String?) async throws {
    // The server and the session there. An app keeps the session in the keychain, and then logs in once.
    let transport = try CurlClient()
    let client = try AccountClient(server: server, transport: transport)
    let tokens = SessionTokens(client, store: MemorySessionStore())
    let remote = try HTTPBackend(server: server, transport: transport, token: tokens.token(refused:))

    // The store: a folder on this device, synced with the server. Opening it needs no network.
    let store = try await EntitlementStore(
        catalog: .json(at: URL(filePath: "catalog.json")), local: .file(device), remote: remote)

    if command != nil {
        // Creates the account, or logs in if it exists and has this password.
        try await tokens.begin(client.signUp("alice", password: "correct horse battery staple").session)
        try await store.logIn("alice")
    }
    switch command {
    case "buy":
        try await store.record(.reported("com.example.owls.3months", transaction: "order-1"))
        try await store.sync()
    case "restore":
        for purchase in try await store.restore().purchases { print("restored \(purchase.product)") }
    case "sync":
        try await store.sync()
    default: break
    }

    switch try await store.access(to: "night-owls") {
    case .granted(let grant): print("\(device): granted", grant.until.map { "until \($0)" } ?? "without an end")
    case .denied(let denial): print("\(device): denied, \(denial)")
    }
}
