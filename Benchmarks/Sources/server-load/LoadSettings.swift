import BenchmarkSupport
import Foundation
import LoadTesting

/// The command line.
struct LoadSettings: Sendable {
    enum Work: String, CaseIterable, Sendable {
        case read
        case readUnchanged = "read-unchanged"
        case write, mixed
        case logIn = "login"
        case watch
    }

    private(set) var target = LoadTarget(host: "127.0.0.1", port: 80)
    private(set) var work = Work.read
    /// The file of requests that replaces ``work``.
    private(set) var requestFile: String?
    private(set) var seconds = 10
    private(set) var connectionCount = 16
    private(set) var accountCount = 16
    private(set) var byteCount = 300
    private(set) var rate: Double?
    /// The percentage of writes in mixed work.
    private(set) var writeShare = 10
    private(set) var reconnects = false
    private(set) var loopCount = 1
    private(set) var isJSON = false

    var origin: String { "http://\(target.authority)" }

    private static let usage = """
        server-load http://HOST:PORT [--work WORK] [--seconds 10] [--connections 16] [--accounts N] [--size 300]
            [--rate REQUESTS-A-SECOND] [--writes PERCENT] [--reconnect] [--threads N] [--requests FILE] [--allow-remote]
            [--json]
        WORK is read, read-unchanged, write, mixed, login or watch. FILE has a request a line, as JSON: method, path,
        fields, body.
        """

    /// Reads the command line; a wrong one ends the process with exit code 2.
    init() {
        var arguments = Arguments(usage: Self.usage)
        if arguments.flag("--help") {
            print(Self.usage)
            exit(0)
        }
        let workName = arguments.text("--work") ?? Work.read.rawValue
        let allowsRemote = arguments.flag("--allow-remote")
        requestFile = arguments.text("--requests")
        seconds = arguments.number("--seconds", in: 1...3_600) ?? 10
        connectionCount = arguments.number("--connections", in: 1...20_000) ?? 16
        accountCount = arguments.number("--accounts", in: 1...20_000) ?? min(connectionCount, 16)
        byteCount = arguments.number("--size", in: 1...(1 << 20)) ?? 300
        writeShare = arguments.number("--writes", in: 0...100) ?? 10
        loopCount =
            arguments.number("--threads", in: 1...64) ?? max(1, ProcessInfo.processInfo.activeProcessorCount / 2)
        let rateText = arguments.text("--rate")
        reconnects = arguments.flag("--reconnect")
        isJSON = arguments.flag("--json")
        let url = arguments.positional()
        arguments.end()
        guard let url else { exitWithFailure("the server is missing; usage: \(Self.usage)", code: 2) }
        guard let work = Work(rawValue: workName) else {
            let names = Work.allCases.map(\.rawValue).joined(separator: ", ")
            exitWithFailure("--work must be one of \(names), not \(workName)", code: 2)
        }
        self.work = work
        if let rateText {
            guard let rate = Double(rateText), rate >= 0.1, rate <= 1_000_000 else {
                exitWithFailure("--rate must be 0.1 to 1000000 requests a second, not \(rateText)", code: 2)
            }
            self.rate = rate
        } else if work == .watch {
            rate = 10
        }
        if reconnects, work != .watch { exitWithFailure("--reconnect needs --work watch", code: 2) }
        if work == .watch, accountCount > connectionCount {
            exitWithFailure("--connections must be at least --accounts, \(accountCount), to watch each", code: 2)
        }
        target = Self.target(url, allowsRemote: allowsRemote)
    }

    private static func target(_ text: String, allowsRemote: Bool) -> LoadTarget {
        guard let url = URL(string: text), url.scheme == "http", let host = url.host(), !host.isEmpty,
            url.user() == nil, url.query() == nil, ["", "/"].contains(url.path())
        else { exitWithFailure("the server must be http://HOST:PORT, not \(text)", code: 2) }
        let name = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        let isLoopback = name == "localhost" || name == "::1" || name.wholeMatch(of: #/127(\.\d{1,3}){3}/#) != nil
        guard allowsRemote || isLoopback else {
            exitWithFailure(
                "\(name) is not this machine; --allow-remote permits load on another machine, which must be yours",
                code: 2)
        }
        return LoadTarget(host: name, port: url.port ?? 80)
    }
}

extension LoadSettings {
    private func plan(_ kinds: [String], _ works: [any LoadWork]) -> LoadPlan {
        LoadPlan(
            kinds: kinds, works: works, seconds: Double(seconds), rate: rate, loopCount: min(loopCount, works.count))
    }

    /// A plan that repeats the given requests, distributed over the connections.
    func plan(of requests: [RequestBytes], kind: String = "request", expecting: ClosedRange<Int> = 200...399)
        -> LoadPlan
    {
        plan([kind], (0..<connectionCount).map { RepeatedRequests(share($0, of: requests), expecting: expecting) })
    }

    /// The elements for connection `index`: every element has a connection, every connection an element.
    private func share<Element>(_ index: Int, of all: [Element]) -> [Element] {
        guard all.count > connectionCount else { return [all[index % all.count]] }
        return stride(from: index, to: all.count, by: connectionCount).map { all[$0] }
    }

    /// A plan for ``work`` with the documents that it reads or overwrites.
    func plan(of accounts: LoadAccounts) async throws -> LoadPlan {
        switch work {
        case .logIn:
            return plan(of: try accounts.logInRequests, kind: work.rawValue, expecting: 200...200)
        case .read, .readUnchanged:
            let isUnchanged = work == .readUnchanged
            let requests = try await accounts.makeDocuments(max(connectionCount, accountCount), of: byteCount).map {
                $0.request("GET", at: target, fields: isUnchanged ? [(name: "If-None-Match", value: $0.tag)] : [])
            }
            let status = isUnchanged ? 304 : 200
            return plan(of: requests, kind: work.rawValue, expecting: status...status)
        case .write:
            return plan(["write"], try await accounts.makeDocuments(connectionCount, of: byteCount).map { writes($0) })
        case .mixed:
            let works = try await accounts.makeDocuments(connectionCount, of: byteCount).enumerated().map {
                MixedWork(
                    RepeatedRequests([$1.request("GET", at: target)], expecting: 200...200), writes($1, kind: 1),
                    share: writeShare, from: $0)
            }
            return plan(["read", "write"], works)
        case .watch:
            let documents = try await accounts.makeDocuments(accountCount, of: byteCount)
            var plan = plan(["write"], documents.map { writes($0) })
            plan.streams = documents.enumerated().map { index, document in
                let count = connectionCount / accountCount + (index < connectionCount % accountCount ? 1 : 0)
                let request = RequestBytes(
                    "GET", "/v1/changes", at: target, fields: [("Accept", "text/event-stream")],
                    credential: document.credential)
                return WatchedStreams(request, count: count)
            }
            if reconnects {
                plan.reopening = Double(seconds) / 2
                // The server spreads streams by their reconnection times.
                plan.patience = 60
            }
            return plan
        }
    }

    private func writes(_ document: LoadDocument, kind: Int = 0) -> ConditionalWrites {
        ConditionalWrites(
            document.request("PUT", at: target), version: document.tag, byteCount: byteCount, kind: kind)
    }
}
