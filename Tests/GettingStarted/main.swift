import EntitlementKit
import Foundation

let arguments = Array(CommandLine.arguments.dropFirst())
let command = arguments.count == 3 ? arguments[2] : nil
let commands = ["sign-up", "log-in", "buy", "buy-pack", "use", "restore", "sync"]
guard (2...3).contains(arguments.count), command.map(commands.contains) ?? true else {
    print("usage: owls SERVER DEVICE [\(commands.joined(separator: " | "))]")
    exit(2)
}
let device = arguments[1]
let password = "correct horse battery staple"

let shop = Shop(catalog: URL(filePath: "catalog.json"), server: arguments[0], folder: URL(filePath: device))
do {
    switch command {
    case "sign-up": _ = try await shop.signUp("alice", password: password, earlierPurchases: .adopt)
    case "log-in": try await shop.logIn("alice", password: password, earlierPurchases: .adopt)
    case "buy":
        try await shop.record("com.example.owls.3months", transaction: "order-1")
        try await shop.refresh()
    case "buy-pack": try await shop.record("com.example.owls.pack", transaction: "order-2")
    case "use": print("\(device): random owls left:", try await shop.use("random-owls").units ?? 0)
    case "restore": print("restored: \(try await shop.restore())")
    case "sync": try await shop.refresh()
    default: break
    }
    let access = try await shop.access(to: "night-owls")
    let end = access.until.map { " until \($0.formatted(.iso8601))" } ?? ""
    print("\(device):", access.isGranted ? "granted\(end)" : "denied, \(access.denial.map { "\($0)" } ?? "")")
} catch {
    print("owls: \(error)")
    exit(1)
}
