// Lets a thousand devices follow a server that fails, and prints when they come back.
//
//     fleet --syncd PROGRAM [--devices COUNT] [--outage SECONDS]
//
// Each device has a store, a connection and an event stream of its own, and runs `EntitlementStore.run`, like
// `syncd run`. The server is killed with SIGKILL, and started again on the same port after the outage. The rows show
// how many requests the devices send in a second of the outage, and when they are up to date again.

import BenchmarkSupport
import CurlTransport
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SyncCore

let usage = "fleet --syncd PROGRAM [--devices COUNT] [--outage SECONDS]"
var arguments = Arguments(usage: usage)
let program = arguments.text("--syncd")
let count = arguments.number("--devices", in: 1...10_000) ?? 1_000
let outage = arguments.number("--outage", in: 1...3_600) ?? 40
arguments.end()
guard let program else { exitWithFailure("usage: \(usage)", code: 2) }

let folder = FileManager.default.temporaryDirectory.appending(path: "fleet-\(UUID().uuidString)").path
try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
defer { try? FileManager.default.removeItem(atPath: folder) }

/// The most of `times` within one second.
func most(_ times: [Double]) -> Int {
    let times = times.sorted()
    var (first, result) = (0, 0)
    for (index, time) in times.enumerated() {
        while time - times[first] >= 1 { first += 1 }
        result = max(result, index - first + 1)
    }
    return result
}

func pause(_ seconds: Double) async throws { try await Task.sleep(for: .seconds(seconds)) }

let record = Record()
let server = try BenchmarkServer(
    program: program, folder: folder,
    // By default the name, which is part of the tokens, depends on how the port is given.
    options: ["--name", "https://fleet.example"])
defer { server.end() }
let sharing = try CurlClient()
let client = try AccountClient(server: server.url, transport: sharing)
var sessions: [ServerSession] = []
// A server limits the event streams of an account.
for number in 0..<(count + 19) / 20 {
    sessions.append(try await client.signUp("fleet\(number)", password: "correct horse").session)
}
let catalog = try Catalog(json: Array(#"{"products":[{"id":"owl","type":"nonConsumable"}]}"#.utf8))

try await withThrowingTaskGroup(of: Void.self) { group in
    var configuration = CurlClient.Configuration()
    configuration.maximumConnectionsPerHost = count * 2
    // One client has one thread; several share the work of the devices.
    let clients = try (0..<4).map { _ in try CurlClient(configuration) }
    for number in 0..<count {
        let session = sessions[number / 20]
        let transport = RecordingTransport(base: clients[number % clients.count], device: number, record: record)
        let remote = try HTTPBackend(server: server.url, transport: transport) { _ throws(BackendError) in
            session.accessToken
        }
        let device = try await EntitlementStore(
            catalog: catalog, local: MemoryBackend(), remote: remote, server: remote,
            account: Account(session.account, incarnation: session.incarnation))
        group.addTask { await device.run(pollingEvery: .seconds(900)) }
    }
    while record.recoveredCount < count {
        guard record.now < 120 else {
            server.end()
            exitWithFailure("only \(record.recoveredCount) of \(count) devices got an answer within 120 s")
        }
        try await pause(0.1)
    }
    try await pause(2)
    server.end()
    _ = record.restart()
    try await pause(Double(outage))
    let sent = record.attempts
    let returned = record.restart()
    try server.start()
    let limit = outage < 60 ? 30.0 : 1_000
    while record.recoveredCount < count, record.now - returned < limit { try await pause(0.05) }
    let back = record.recoveries.sorted()
    print("devices: \(count), outage: \(outage) s")
    print("requests in the outage: \(sent.count), in its busiest second \(most(sent))")
    print("up to date again: \(back.count) devices")
    for share in [0.01, 0.5, 0.99, 1] where !back.isEmpty {
        let index = max(0, Int((share * Double(back.count)).rounded(.up)) - 1)
        print("  \(Int(share * 100)) % after \(((back[index] - returned) * 10).rounded() / 10) s")
    }
    print("devices in the busiest second: \(most(back))")
    guard back.count == count else {
        server.end()
        exitWithFailure("\(count - back.count) devices did not come back")
    }
    group.cancelAll()
}
