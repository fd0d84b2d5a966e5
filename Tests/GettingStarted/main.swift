import EntitlementKit
import Foundation

let arguments = Array(CommandLine.arguments.dropFirst())
let command = arguments.count == 3 ? arguments[2] : nil
guard (2...3).contains(arguments.count), [nil, "sign-up", "log-in", "buy", "restore", "sync"].contains(command) else {
    print("usage: owls SERVER DEVICE [sign-up | log-in | buy | restore | sync]")
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
