import EntitlementSync
import Entitlements
import HTTPStorage
import LoadTesting
import SyncCore
import SyncProtocol
import Synchronization

/// A document of an account of the bench's own.
struct BenchDocument: Sendable {
    var path: String
    var tag: String
    var credential: LoadCredential

    func request(
        _ method: String, at target: LoadTarget, fields: [(name: String, value: String)] = []
    ) -> RequestBytes {
        RequestBytes(method, path, at: target, fields: fields, credential: credential)
    }
}

/// The accounts that a bench makes, keeps logged in and erases.
final class BenchAccounts: Sendable {
    private enum State {
        case none
        /// The server may or may not have it: it was asked.
        case asked
        case made(ServerSession)
        case erased
    }

    private struct One: Sendable {
        var name: String
        var credential = LoadCredential(token: "")
    }

    /// Hashing a password needs memory and a core; more would only wait.
    private static let parallelCount = 8

    private let accounts: [One]
    private let states: Mutex<[State]>
    private let password: String
    private let server: BenchServer
    private let client: AccountClient
    private let host: HostServices

    init(_ count: Int, at server: BenchServer, host: HostServices) throws(AccountError) {
        (self.server, self.host) = (server, host)
        let word = String(host.randomBits() >> 24, radix: 36)
        password = String(host.randomBits(), radix: 36) + String(host.randomBits(), radix: 36)
        accounts = (0..<count).map { One(name: "bench-\(word)-\($0)") }
        states = Mutex(Array(repeating: .none, count: count))
        client = try AccountClient(server: server.origin, transport: server.transport, timeout: .seconds(60))
    }

    private func state(_ index: Int) -> State { states.withLock { $0[index] } }

    private func begin(_ session: ServerSession, of index: Int) {
        accounts[index].credential.replace(by: session.accessToken)
        states.withLock { $0[index] = .made(session) }
    }

    private static func each(_ count: Int, _ work: @escaping @Sendable (Int) async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<count {
                if index >= parallelCount { try await group.next() }
                group.addTask { try await work(index) }
            }
            try await group.waitForAll()
        }
    }

    /// Signs all of them up.
    func make() async throws {
        try await checkServer()
        try await Self.each(accounts.count) { [self] index in
            states.withLock { $0[index] = .asked }
            do throws(AccountError) {
                begin(try await client.signUp(accounts[index].name, password: password).session, of: index)
            } catch {
                // Where the server said no, it has made none.
                if error.kind != .unreachable, error.kind != .server { states.withLock { $0[index] = .none } }
                throw error
            }
        }
    }

    /// Where nobody listens, nothing is begun.
    private func checkServer() async throws {
        let store = try HTTPBackend(server: server.origin, transport: server.transport)
        do throws(BackendError) {
            _ = try await store.read(try EntryKey("bench"), unless: nil)
        } catch {
            // Whoever says no is there.
            if error.kind == .unavailable { throw error }
        }
    }

    /// Makes `count` documents, in turn one of each account.
    func makeDocuments(_ count: Int, of byteCount: Int) async throws -> [BenchDocument] {
        let made = Mutex([BenchDocument?](repeating: nil, count: count))
        try await Self.each(count) { [self] index in
            let place = index % accounts.count
            guard case .made(let session) = state(place) else { return }
            let keys = try LedgerKeys(try session.life())
            let key = try EntryKey(keys.prefix + "bench/\(index)")
            let credential = accounts[place].credential
            let store = try HTTPBackend(server: server.origin, transport: server.transport) { _ in
                credential.current.token
            }
            let value = [UInt8](repeating: UInt8(ascii: "x"), count: byteCount)
            guard case .written(let version) = try await store.write(value, to: key, if: .absent).outcome else {
                throw Failure(.failed, "\(server.origin): a key of an account that is new has a value")
            }
            let document = BenchDocument(
                path: WirePath.path(of: key), tag: EntityTag(version).description, credential: credential)
            made.withLock { $0[index] = document }
        }
        return made.withLock { $0.compactMap(\.self) }
    }

    /// A request that logs account `index` in.
    func logInRequest(_ index: Int, at target: LoadTarget) -> RequestBytes {
        let body: JSON = .object([
            ("grant_type", .string("password")), ("username", .string(accounts[index].name)),
            ("password", .string(password)),
        ])
        return RequestBytes(
            "POST", "/v1/sessions", at: target, fields: [("Content-Type", "application/json")],
            body: Array(body.text().utf8))
    }

    /// Does `work`, and meanwhile replaces each access token before it ends.
    func keepingSessions<Value: Sendable>(
        while work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask { try await work() }
            group.addTask { [self] in
                await renew()
                return nil
            }
            var result: Value?
            while let next = try await group.next() {
                result = next ?? result
                group.cancelAll()
            }
            guard let result else { throw CancellationError() }
            return result
        }
    }

    /// Until it is cancelled. A session that cannot be renewed shows in the answers, by 401.
    private func renew() async {
        let lifetime = states.withLock { states in
            states.compactMap { if case .made(let session) = $0 { session.lifetime } else { nil } }.min()
        }
        let pause = (lifetime ?? .seconds(600)) / 2
        while !Task.isCancelled {
            try? await host.sleep(for: pause)
            if Task.isCancelled { break }
            for index in accounts.indices {
                guard case .made(let session) = state(index) else { continue }
                if let next = try? await client.refresh(session.refreshToken) { begin(next, of: index) }
            }
        }
    }

    /// Erases all that were made, as far as the server lets it.
    func erase() async {
        _ = try? await Self.each(accounts.count) { [self] index in
            switch state(index) {
            case .none, .erased: return
            case .asked:
                do throws(AccountError) {
                    begin(try await client.logIn(accounts[index].name, password: password), of: index)
                } catch {
                    // It was never made.
                    if error.kind == .invalidCredentials { states.withLock { $0[index] = .none } }
                    return
                }
            case .made: break
            }
            await erase(index)
        }
    }

    private func erase(_ index: Int) async {
        let token = accounts[index].credential
        do throws(AccountError) {
            try await client.erase(password: password) { _ in token.current.token }
            states.withLock { $0[index] = .erased }
        } catch {
            // It is told by `leftOver`.
        }
    }

    /// What is left on the server, in words; `nil` for nothing.
    var leftOver: String? {
        let left = states.withLock { states in
            states.indices.filter {
                switch states[$0] {
                case .none, .erased: false
                case .asked, .made: true
                }
            }
        }
        guard let first = left.first, let last = left.last else { return nil }
        return
            "left on the server: \(plural(left.count, "account")) from \(accounts[first].name) to "
            + "\(accounts[last].name); its operator erases them (syncd account erase NAME --yes --token-file FILE)"
    }
}
