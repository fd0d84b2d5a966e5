import Entitlements
import LoadTesting
import SyncCore
import SyncProtocol

/// What is asked for.
struct BenchSettings: Sendable {
    enum Work: String, CaseIterable, Sendable {
        case read
        case readUnchanged = "read-unchanged"
        case write, mixed
        case logIn = "login"
        case watch
    }

    var work: Work
    /// Whether a file says what is asked, and not ``work``.
    var isGiven: Bool
    var seconds: Int
    var connectionCount: Int
    var accountCount: Int
    var byteCount: Int
    var rate: Double?
    var writeShare: Int
    var reopens: Bool
    var loopCount: Int

    private func plan(_ kinds: [String], _ works: [any LoadWork]) -> LoadPlan {
        LoadPlan(
            kinds: kinds, works: works, seconds: Double(seconds), rate: rate, loopCount: min(loopCount, works.count))
    }

    /// Everybody asks what `requests` say.
    func plan(of requests: [RequestBytes]) -> LoadPlan {
        plan(
            ["request"],
            (0..<connectionCount).map { RepeatedRequests(share($0, of: requests), expecting: 200...399) })
    }

    /// What connection `index` asks of `all`: everything is asked, and not more kept than is needed.
    private func share<Element>(_ index: Int, of all: [Element]) -> [Element] {
        guard all.count > connectionCount else { return [all[index % all.count]] }
        return stride(from: index, to: all.count, by: connectionCount).map { all[$0] }
    }

    /// Documents are made first, where there is something to read or to overwrite.
    func plan(of accounts: BenchAccounts, at target: LoadTarget) async throws -> LoadPlan {
        switch work {
        case .logIn:
            let requests = (0..<accountCount).map { accounts.logInRequest($0, at: target) }
            return plan(
                ["login"], (0..<connectionCount).map { RepeatedRequests(share($0, of: requests), expecting: 200...200) }
            )
        case .read, .readUnchanged:
            let documents = try await accounts.makeDocuments(max(connectionCount, accountCount), of: byteCount)
            let requests = documents.map { document in
                let fields = work == .read ? [] : [(name: "If-None-Match", value: document.tag)]
                return document.request("GET", at: target, fields: fields)
            }
            let status = work == .read ? 200 : 304
            return plan(
                [work.rawValue],
                (0..<connectionCount).map { RepeatedRequests(share($0, of: requests), expecting: status...status) })
        case .write:
            let documents = try await accounts.makeDocuments(connectionCount, of: byteCount)
            return plan(["write"], documents.map { writes($0, at: target, kind: 0) })
        case .mixed:
            let documents = try await accounts.makeDocuments(connectionCount, of: byteCount)
            let works = documents.enumerated().map { index, document in
                MixedWork(
                    RepeatedRequests([document.request("GET", at: target)], expecting: 200...200),
                    writes(document, at: target, kind: 1), share: writeShare, from: index)
            }
            return plan(["read", "write"], works)
        case .watch: return try await watching(accounts, at: target)
        }
    }

    private func writes(_ document: BenchDocument, at target: LoadTarget, kind: Int) -> ConditionalWrites {
        ConditionalWrites(
            document.request("PUT", at: target), version: document.tag, byteCount: byteCount, kind: kind)
    }

    private func watching(_ accounts: BenchAccounts, at target: LoadTarget) async throws -> LoadPlan {
        let documents = try await accounts.makeDocuments(accountCount, of: byteCount)
        var plan = plan(["write"], documents.map { writes($0, at: target, kind: 0) })
        plan.streams = documents.enumerated().map { index, document in
            let count = connectionCount / accountCount + (index < connectionCount % accountCount ? 1 : 0)
            let request = RequestBytes(
                "GET", "/v1/changes", at: target, fields: [("Accept", "text/event-stream")],
                credential: document.credential)
            return WatchedStreams(request, count: count)
        }
        if reopens { plan.reopening = Double(seconds) / 2 }
        return plan
    }
}
