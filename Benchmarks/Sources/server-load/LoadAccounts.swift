import Foundation
import LoadTesting
import Synchronization

/// A document of an account.
struct LoadDocument: Sendable {
    var path: String
    var tag: String
    var credential: LoadCredential

    func request(
        _ method: String, at target: LoadTarget, fields: [(name: String, value: String)] = []
    ) -> RequestBytes {
        RequestBytes(method, path, at: target, fields: fields, credential: credential)
    }
}

/// The accounts of a run: signs them up, renews their sessions and erases them.
final class LoadAccounts: Sendable {
    /// The answer to a sign-up, a log-in and a refresh.
    private struct Session: Decodable {
        var accessToken: String
        var refreshToken: String
        var expiresIn: Int
        var incarnation: String
    }

    private enum State {
        case absent
        /// The sign-up has no answer, so the account may or may not exist.
        case uncertain
        case present(Session)
    }

    private struct Account: Sendable {
        var name: String
        var credential = LoadCredential(token: "")
    }

    /// The number of set-up requests at once; hashing passwords is bound by processors and memory.
    private static let parallelCount = 8

    private let accounts: [Account]
    private let states: Mutex<[State]>
    private let password = UUID().uuidString
    private let target: LoadTarget

    init(_ count: Int, at target: LoadTarget) {
        self.target = target
        let word = UUID().uuidString.prefix(8).lowercased()
        accounts = (0..<count).map { Account(name: "load-\(word)-\($0)") }
        states = Mutex(Array(repeating: .absent, count: count))
    }

    private func state(_ index: Int) -> State { states.withLock { $0[index] } }

    private func set(_ state: State, of index: Int) {
        if case .present(let session) = state { accounts[index].credential.replace(by: session.accessToken) }
        states.withLock { $0[index] = state }
    }

    private static func each(_ count: Int, _ body: @escaping @Sendable (Int) async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<count {
                if index >= parallelCount { try await group.next() }
                group.addTask { try await body(index) }
            }
            try await group.waitForAll()
        }
    }

    private func post(
        _ path: String, _ members: [String: String], as credential: LoadCredential? = nil
    ) throws -> RequestBytes {
        RequestBytes(
            "POST", path, at: target, fields: [("Content-Type", "application/json")],
            body: Array(try JSONEncoder().encode(members)), credential: credential)
    }

    private func perform(_ request: RequestBytes) async throws -> Exchange {
        let answer = try await Exchange.perform(request, at: target)
        guard (200..<300).contains(answer.head.status) else {
            throw Refusal(status: answer.head.status, body: String(decoding: answer.body, as: UTF8.self))
        }
        return answer
    }

    private func session(_ request: RequestBytes) async throws -> Session {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(Session.self, from: Data(try await perform(request).body))
    }

    private func logIn(_ index: Int) throws -> RequestBytes {
        try post(
            "/v1/sessions", ["grant_type": "password", "username": accounts[index].name, "password": password])
    }

    /// The server answered an error while the run was prepared.
    private struct Refusal: Error, CustomStringConvertible {
        var status: Int
        var body: String
        var description: String { "the server answers \(status): \(body)" }
    }
}

extension LoadAccounts {
    /// Signs all accounts up.
    func make() async throws {
        // Without a reachable server there is nothing to erase later.
        _ = try await Exchange.perform(RequestBytes("GET", "/healthz", at: target), at: target)
        try await Self.each(accounts.count) { [self] index in
            set(.uncertain, of: index)
            do {
                let request = try post("/v1/accounts", ["name": accounts[index].name, "password": password])
                set(.present(try await session(request)), of: index)
            } catch let error as Refusal where error.status < 500 {
                set(.absent, of: index)
                throw error
            }
        }
    }

    /// Writes `count` documents, distributed over the accounts.
    func makeDocuments(_ count: Int, of byteCount: Int) async throws -> [LoadDocument] {
        let made = Mutex([LoadDocument?](repeating: nil, count: count))
        try await Self.each(count) { [self] index in
            let account = accounts[index % accounts.count]
            guard case .present(let session) = state(index % accounts.count) else { return }
            let path = "/v1/kv/accounts/\(account.name)/\(session.incarnation)/load/\(index)"
            let request = RequestBytes(
                "PUT", path, at: target, fields: [("If-None-Match", "*")],
                body: [UInt8](repeating: UInt8(ascii: "x"), count: byteCount), credential: account.credential)
            guard let tag = try await perform(request).head.field("etag") else {
                throw LoadFailure(description: "the answer to a PUT has no ETag")
            }
            made.withLock { $0[index] = LoadDocument(path: path, tag: tag, credential: account.credential) }
        }
        return made.withLock { $0.compactMap(\.self) }
    }

    /// A log-in of each account.
    var logInRequests: [RequestBytes] { get throws { try accounts.indices.map(logIn) } }

    /// Runs `work` and renews access tokens before they expire.
    func keepingSessions<Value: Sendable>(
        while work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask { try await work() }
            group.addTask { [self] in
                await renewSessions()
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

    /// Renews all sessions until the task is cancelled. A session that cannot be renewed leads to answers of 401.
    private func renewSessions() async {
        let lifetime = states.withLock { states in
            states.compactMap { if case .present(let session) = $0 { session.expiresIn } else { nil } }.min()
        }
        while !Task.isCancelled {
            do { try await Task.sleep(for: .seconds(lifetime ?? 600) / 2) } catch { return }
            for index in accounts.indices {
                guard case .present(let old) = state(index) else { continue }
                let members = ["grant_type": "refresh_token", "refresh_token": old.refreshToken]
                if let new = try? await session(post("/v1/sessions", members)) { set(.present(new), of: index) }
            }
        }
    }

    /// Erases all accounts; ``remainder`` describes those that could not be erased.
    func erase() async {
        _ = try? await Self.each(accounts.count) { [self] index in
            do {
                if case .uncertain = state(index) { set(.present(try await session(logIn(index))), of: index) }
                guard case .present = state(index) else { return }
                _ = try await perform(
                    try post("/v1/accounts/self/erasure", ["password": password], as: accounts[index].credential))
                set(.absent, of: index)
            } catch let error as Refusal where [400, 401].contains(error.status) {
                // The log-in of an uncertain account fails: the server has not created it.
                if case .uncertain = state(index) { set(.absent, of: index) }
            } catch {
                // The account remains.
            }
        }
    }

    /// A description of the accounts that are left on the server.
    var remainder: String? {
        let left = states.withLock { states in
            states.indices.filter { if case .absent = states[$0] { false } else { true } }
        }
        guard let first = left.first, let last = left.last else { return nil }
        return "\(left.count) accounts are left on the server, from \(accounts[first].name) to \(accounts[last].name); "
            + "erase them as its operator: syncd account erase NAME --yes --token-file FILE"
    }
}
