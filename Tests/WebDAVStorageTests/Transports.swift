import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncCoreTesting
import SyncProtocol
import Synchronization

/// A transport that records the requests that it forwards.
final class CountingTransport: HTTPTransport {
    private let wrapped: any HTTPTransport
    private let requests = Mutex<[HTTPRequest]>([])

    init(_ wrapped: any HTTPTransport) { self.wrapped = wrapped }

    /// Returns the methods of the requests since the last call, and clears the record.
    func takeMethods() -> [String] {
        requests.withLock { requests in
            defer { requests = [] }
            return requests.map(\.method.rawValue)
        }
    }

    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        requests.withLock { $0.append(request) }
        return try await wrapped.send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
    }
}

/// A transport that randomly loses requests and answers, truncates bodies, and answers 503 like an overloaded proxy.
final class LossyTransport: HTTPTransport {
    private let wrapped: any HTTPTransport
    private let generator: Mutex<SeededGenerator>

    init(_ wrapped: any HTTPTransport, seed: UInt64) {
        self.wrapped = wrapped
        generator = Mutex(SeededGenerator(seed: seed))
    }

    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        let (fate, share) = generator.withLock {
            (Int.random(in: 0..<20, using: &$0), UInt8.random(in: 0...9, using: &$0))
        }
        if fate == 0 { throw TransportError(.interrupted, mayHaveArrived: true, message: "the request was lost") }
        if fate == 1 { throw TransportError(.unreachable, mayHaveArrived: false, message: "connection refused") }
        var answer = try await wrapped.send(
            request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
        switch fate {
        case 2: throw TransportError(.interrupted, mayHaveArrived: true, message: "the answer was lost")
        case 3: throw TransportError(.timedOut, mayHaveArrived: true, message: "the request timed out")
        case 4: return TransportAnswer(503)
        case 5: answer.body = Array(answer.body.prefix(answer.body.count * Int(share) / 10))
        default: break
        }
        return answer
    }
}

extension TransportAnswer {
    /// Returns a multistatus with the given paths. A path with a trailing slash is a collection.
    static func listing(_ hrefs: String...) -> TransportAnswer {
        let responses = hrefs.map { href in
            let type = href.hasSuffix("/") ? "<D:resourcetype><D:collection/></D:resourcetype>" : "<D:resourcetype/>"
            return "<D:response><D:href>\(href)</D:href><D:propstat><D:prop>\(type)</D:prop>"
                + "<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
        }
        return TransportAnswer(
            207, HTTPFields(),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:multistatus xmlns:D=\"DAV:\">\(responses.joined())"
                + "</D:multistatus>")
    }
}
