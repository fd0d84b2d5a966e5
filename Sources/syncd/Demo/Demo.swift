import ArgumentParser
import Entitlements
import Foundation
import SyncCore

struct Demo: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show two devices, a refund and a lost phone with a real server, and check every result.")

    @Option(
        help: ArgumentHelp(
            "A catalogue with the same products (default: the tutorial app's, which is built in).", valueName: "file"))
    var catalog: String?

    @Flag(help: "Keep the folders of the devices.")
    var keep = false

    func run() async throws {
        let document = try catalog.map(Self.document) ?? PackageResources.insomniowl_json
        let name = "syncd-demo-\(ProcessInfo.processInfo.processIdentifier)"
        let folder = FileManager.default.temporaryDirectory.appending(path: name)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let file = folder.appending(path: "catalog.json").path(percentEncoded: false)
        try writeFile(document, to: file)
        let stage = DemoStage(
            folder: folder, catalog: file,
            password: (0..<2).map { _ in String(HostServices.system.randomBits(), radix: 36) }.joined())
        do {
            do {
                try DemoStory(stage: stage).run()
            } catch {
                // The first error is the one to report.
                try? stage.end()
                throw error
            }
            try stage.end()
        } catch {
            print("\nThe folders of this run are kept in \(folder.path(percentEncoded: false))")
            throw error
        }
        if keep {
            print("\nThe folders of the devices are in \(folder.path(percentEncoded: false))")
        } else {
            try FileManager.default.removeItem(at: folder)
        }
    }
}

extension Demo {
    /// Reads another catalogue, which must have the products that the steps buy.
    private static func document(at path: String) throws -> [UInt8] {
        try readDocument(path) { bytes in
            let catalog = try Catalog(json: bytes)
            for product in [DemoStory.threeMonths, DemoStory.sixMonths, DemoStory.nightOwl, DemoStory.units] {
                guard catalog[product: ProductID(product)] != nil else {
                    throw Failure(.notFound, "\(path): the demo needs the product \(product)")
                }
            }
            return bytes
        }
    }
}

/// The steps of the demo, with the state that each device must show.
struct DemoStory {
    static let threeMonths = "com.back40.InsomniOwl.3monthsOfRandom"
    static let sixMonths = "com.back40.InsomniOwl.6monthsOfRandom"
    static let nightOwl = "com.back40.InsomniOwl.NightOwl"
    static let units = "com.back40.InsomniOwl.RandomOwls"

    let stage: DemoStage

    func run() throws {
        stage.chapter("A server, over SQLite")
        // The server's clock starts after all purchases, so that none lies in its future.
        try stage.serve("--at 2026-03-02 --password-cost 10 --log-level warning")
        stage.remark(
            "For the demo its clock starts on the last day, and passwords are hashed with 2^10 rounds, not 2^17.")
        try buyAndRestore()
        try buyOnBothOffline()
        try refund()
        try loseThePhone()
        print("\nAll \(stage.checks.count) checks passed.")
    }

    private func buyAndRestore() throws {
        stage.chapter("1 January: the phone signs up, and buys three months, an owl, and five single owls")
        try stage.run("phone", "account create owl-lover", on: "2026-01-01")
        try stage.run("phone", "account login owl-lover", on: "2026-01-01")
        try stage.run("phone", "record purchase \(Self.threeMonths) --transaction phone-1", on: "2026-01-01")
        try stage.run("phone", "record purchase \(Self.nightOwl) --transaction phone-2", on: "2026-01-01")
        try stage.run("phone", "record purchase \(Self.units) --transaction phone-3", on: "2026-01-01")
        try stage.run("phone", "sync", on: "2026-01-01")
        try stage.expect("phone", on: "2026-01-01", end: "2026-04-01", owned: [Self.nightOwl])

        stage.chapter("2 January: a new tablet logs in, checks access, and restores")
        try stage.run("tablet", "account login owl-lover", on: "2026-01-02")
        try stage.run("tablet", "check random-owls", on: "2026-01-02", exit: 10)
        try stage.run("tablet", "restore", on: "2026-01-02")
        try stage.expect("tablet", on: "2026-01-02", end: "2026-04-01", owned: [Self.nightOwl])
    }

    private func buyOnBothOffline() throws {
        stage.chapter("1 February: both are offline; the phone buys three more months, the tablet six")
        try stage.run("phone", "record purchase \(Self.threeMonths) --transaction phone-4", on: "2026-02-01")
        try stage.run("tablet", "record purchase \(Self.sixMonths) --transaction tablet-1", on: "2026-02-01")
        try stage.expect("phone", on: "2026-02-01", end: "2026-07-01", owned: [Self.nightOwl])
        try stage.expect("tablet", on: "2026-02-01", end: "2026-10-01", owned: [Self.nightOwl])

        stage.chapter("2 February: both are online again, and nothing that was paid for is lost")
        for device in ["phone", "tablet", "phone"] { try stage.run(device, "sync", on: "2026-02-02") }
        for device in ["phone", "tablet"] {
            try stage.expect(device, on: "2026-02-02", end: "2027-01-01", owned: [Self.nightOwl])
        }
        stage.remark("The tutorials' rule, reading the same facts, loses three months:")
        try stage.expect("phone", on: "2026-02-02", end: "2026-10-01", owned: [Self.nightOwl], rule: "latestExpiryWins")
    }

    private func refund() throws {
        stage.chapter("1 March: the store refunds the phone's second three months; the tablet records it")
        try stage.run("tablet", "record refund phone-4", on: "2026-03-01")
        for device in ["tablet", "phone"] { try stage.run(device, "sync", on: "2026-03-01") }
        for device in ["tablet", "phone"] {
            try stage.expect(device, on: "2026-03-01", end: "2026-10-01", owned: [Self.nightOwl])
        }
    }

    private func loseThePhone() throws {
        stage.chapter("2 March: the phone falls into the sea; a new one logs in and restores")
        try stage.lose("phone")
        try stage.run("new-phone", "account login owl-lover", on: "2026-03-02")
        try stage.run("new-phone", "restore", on: "2026-03-02")
        try stage.expect("new-phone", on: "2026-03-02", end: "2026-10-01", owned: [Self.nightOwl])
        try stage.expect("new-phone", on: "2026-10-01", end: nil, owned: [Self.nightOwl])
        try stage.run("new-phone", "timeline", on: "2026-03-02")
        stage.remark("The five single owls stayed on the lost phone, as in the tutorials (consumables: deviceLocal).")
    }
}
