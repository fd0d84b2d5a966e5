import EntitlementSync
import Entitlements
import HTTPStorage
import HTTPTypes
import SyncCore
import SyncProtocol
import SyncSimulation

/// A client that follows the events of an account and reconnects, and remembers the last version of each entry.
/// Single-threaded.
final class StreamWatcher: @unchecked Sendable {
    let device: ClientDevice
    private(set) var account: Account?
    /// The versions that the events stated last; `nil` for a deletion.
    private(set) var versions: [String: String?] = [:]
    /// The start of the complete observation, in virtual microseconds; `nil` before the first connection.
    private(set) var begun: Int64?
    private(set) var isConnected = false
    private var isStopped = false
    private var lastEventID = ""

    init(_ device: ClientDevice) { self.device = device }

    /// Ends after the next event.
    func stop() { isStopped = true }

    func run() async {
        let world = device.world
        while !isStopped {
            if !world.isNight { _ = try? await follow() }
            isConnected = false
            await world.pause(world.isNight ? 60_000_000 : 2_000_000)
        }
    }

    private func follow() async throws {
        let world = device.world
        let account = try await device.account()
        if account != self.account { (self.account, versions, begun, lastEventID) = (account, [:], nil, "") }
        let token = try await device.clients().tokens.token()
        var request = HTTPRequest(
            method: .get, scheme: "https", authority: "sync.example.com", path: "/v1/changes",
            headerFields: [.accept: "text/event-stream", .authorization: "Bearer \(token ?? "")"])
        if !lastEventID.isEmpty, let name = HTTPField.Name(WireFields.lastEventID) {
            request.headerFields[name] = lastEventID
            world.reach(.streamResumed)
        }
        let stream = try await device.link.stream(request, idleTimeout: .seconds(40))
        if stream.response.status == .unauthorized { _ = try await device.clients().tokens.token(refused: token) }
        guard stream.response.status == .ok else {
            if stream.response.status == .gone { forget() }
            return
        }
        isConnected = true
        if begun == nil { begun = world.scheduler.now }
        var events = ServerSentEvents()
        for try await bytes in stream {
            for event in try events.feed(bytes) { try handle(event) }
            if !events.lastEventID.isEmpty { lastEventID = events.lastEventID }
            if isStopped { return }
        }
        world.reach(.streamEnded)
    }

    private func handle(_ event: ServerSentEvents.Event) throws {
        if event.name == "expired" {
            device.world.reach(.streamExpired)
            forget()
        }
        guard event.name == "change" else { return }
        let change = try JSON(parsing: Array(event.data.utf8))
        guard let key = change["key"]?.string else { return }
        versions[key] = .some(change["version"]?.string)
        if let account, !key.hasPrefix("accounts/\(account.name ?? "")/") {
            device.world.report(.isolation, "a stream of \(account.name ?? "") reports \(key)", lane: device.index)
        }
    }

    /// Starts over: earlier changes are unknown.
    private func forget() { (versions, begun, lastEventID) = ([:], nil, "") }
}
