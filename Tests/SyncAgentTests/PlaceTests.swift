import Foundation
import SyncAgent
import TestSupport
import Testing

@Suite("The lock of a store, the place of a socket, and the users of a socket")
struct PlaceTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test("A second holder is refused with the first one's process id; a lock that was left behind is taken")
    func lock() throws {
        let path = folder.path(of: "store.sqlite")
        do {
            let lock = try StoreLock(ofStore: path)
            #expect(StoreLock.holder(ofStore: path) == getpid())
            let error = #expect(throws: AgentError.self) { try StoreLock(ofStore: path) }
            #expect(error?.description.contains("(process \(getpid()))") == true)
            withExtendedLifetime(lock) {}
        }
        #expect(FileManager.default.fileExists(atPath: StoreLock.path(ofStore: path)))
        #expect(StoreLock.holder(ofStore: path) == nil)
        let lock = try StoreLock(ofStore: path)
        lock.remove()
        #expect(!FileManager.default.fileExists(atPath: StoreLock.path(ofStore: path)))
    }

    @Test("The folder of the socket is created for its user only; an unsafe one, or a file in its place, is refused")
    func place() throws {
        let place = try SocketLocation(path: folder.path(of: "a/socket"))
        try place.prepare()
        let mode = try FileManager.default.attributesOfItem(atPath: folder.path(of: "a"))[.posixPermissions] as? Int
        #expect(mode == 0o700)
        chmod(folder.path(of: "a"), 0o701)
        #expect(throws: AgentError.self) { try place.prepare() }
        chmod(folder.path(of: "a"), 0o700)
        try Data().write(to: URL(filePath: folder.path(of: "a/socket")))
        let error = #expect(throws: AgentError.self) { try place.prepare() }
        #expect(error?.description.contains("is not a socket") == true)
        #expect(throws: AgentError.self) { try SocketLocation(path: "relative") }
        #expect(throws: AgentError.self) { try SocketLocation(path: "/" + String(repeating: "a", count: 107)) }
        _ = try SocketLocation(path: "/" + String(repeating: "a", count: 106))
    }

    @Test("The owner and root may act, others nothing, and the members of the group as much as configured")
    func users() {
        let users = LocalUsers(owner: 1_000)
        #expect(users.permission(of: 1_000) == .act)
        #expect(users.permission(of: 0) == .act)
        #expect(users.permission(of: 65_534) == LocalUsers.Permission.none)
        #expect(users.permission(of: nil) == LocalUsers.Permission.none)
        let group = LocalUsers.group(named: "daemon")
        #expect(group != nil)
        // The user "daemon" has the id 1 on Debian.
        #expect(LocalUsers(owner: 1_000, group: group).permission(of: 1) == .read)
        #expect(LocalUsers(owner: 1_000, group: group, groupMayAct: true).permission(of: 1) == .act)
        #expect(LocalUsers.group(named: "no such group") == nil)
    }

    @Test("The service manager's watchdog is asked at half its interval, and only for this process")
    func watchdog() {
        func interval(_ variables: [String: String]) -> Duration? {
            ServiceNotifier(environment: variables, processID: 7).watchdogInterval
        }
        #expect(interval(["WATCHDOG_USEC": "60000000"]) == .seconds(30))
        #expect(interval(["WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"]) == .seconds(30))
        #expect(interval(["WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"]) == nil)
        #expect(interval(["WATCHDOG_USEC": "0"]) == nil)
        #expect(interval([:]) == nil)
    }
}
