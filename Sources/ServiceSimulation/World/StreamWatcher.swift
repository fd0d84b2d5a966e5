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

    /// A request for events.
    static func request(token: String, after lastEventID: String) -> HTTPRequest {
        var request = HTTPRequest(
            method: .get, scheme: "https", authority: "sync.example.com", path: "/v1/changes",
            headerFields: [.accept: "text/event-stream", .authorization: "Bearer \(token)"])
        if !lastEventID.isEmpty, let name = HTTPField.Name(WireFields.lastEventID) {
            request.headerFields[name] = lastEventID
        }
        return request
    }

    private func follow() async throws {
        let world = device.world
        let account = try await device.account()
        let token = try await device.clients().tokens.token()
        // A log-in in between may have given the device the token of another account.
        guard try await device.account() == account else { return }
        // Without a position, the changes since the former connection are unknown.
        if account != self.account || lastEventID.isEmpty {
            (self.account, versions, begun, lastEventID) = (account, [:], nil, "")
        }
        if !lastEventID.isEmpty { world.reach(.streamResumed) }
        let request = Self.request(token: token ?? "", after: lastEventID)
        let stream = try await device.link.stream(request, idleTimeout: .seconds(40))
        if stream.response.status == .unauthorized { _ = try await device.clients().tokens.token(refused: token) }
        guard stream.response.status == .ok else {
            if stream.response.status == .gone { expire() }
            return
        }
        isConnected = true
        if begun == nil { begun = world.scheduler.now }
        var events = StreamReader(token: token ?? "", world: world)
        for try await bytes in stream {
            for event in try events.feed(bytes) { handle(event, events) }
            if !events.lastEventID.isEmpty { lastEventID = events.lastEventID }
            if isStopped { return }
            // A device that has another account now reconnects with it.
            if try await device.account() != account { return }
        }
        world.reach(.streamEnded)
    }

    private func handle(_ event: ServerSentEvents.Event, _ events: StreamReader) {
        if event.name == "expired" { expire() }
        guard let change = events.check(event) else { return }
        versions[change.key] = .some(change.version)
        guard let account, let prefix = try? LedgerKeys(account).prefix, !change.key.hasPrefix(prefix) else { return }
        device.world.report(
            .isolation, "a stream of \(account.name ?? "") reports \(change.key)", lane: device.index)
    }

    /// Starts over: earlier changes are unknown.
    private func expire() {
        device.world.reach(.streamExpired)
        (versions, begun, lastEventID) = ([:], nil, "")
    }
}

/// Parses a stream of events, and checks that none follows the end of its session.
struct StreamReader {
    let token: String
    unowned let world: ServiceWorld
    private var events = ServerSentEvents()

    init(token: String, world: ServiceWorld) { (self.token, self.world) = (token, world) }

    var lastEventID: String { events.lastEventID }

    mutating func feed(_ bytes: [UInt8]) throws -> [ServerSentEvents.Event] { try events.feed(bytes) }

    /// The key and the version of a change; `nil` for any other event.
    @discardableResult
    func check(_ event: ServerSentEvents.Event) -> (key: String, version: String?)? {
        guard event.name == "change", let change = try? JSON(parsing: Array(event.data.utf8)),
            let key = change["key"]?.string
        else { return nil }
        let version = change["version"]?.string
        world.audit.didStream(token, key, version)
        return (key, version)
    }
}
