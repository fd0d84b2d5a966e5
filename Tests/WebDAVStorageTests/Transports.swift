import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncCoreTesting
import SyncProtocol
import Synchronization

/// Counts what goes through it.
final class CountingTransport: HTTPTransport {
    private let wrapped: any HTTPTransport
    private let asked = Mutex<[HTTPRequest]>([])

    init(_ wrapped: any HTTPTransport) { self.wrapped = wrapped }

    /// The methods of the requests since this was asked last.
    func takeMethods() -> [String] {
        asked.withLock { asked in
            defer { asked = [] }
            return asked.map(\.method.rawValue)
        }
    }

    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        asked.withLock { $0.append(request) }
        return try await wrapped.send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
    }
}

/// A connection that loses requests and answers, cuts bodies, and has a proxy on the way that is overloaded.
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
        if fate == 1 { throw TransportError(.unreachable, mayHaveArrived: false, message: "nobody answers") }
        var answer = try await wrapped.send(
            request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
        switch fate {
        case 2: throw TransportError(.interrupted, mayHaveArrived: true, message: "the answer was lost")
        case 3: throw TransportError(.timedOut, mayHaveArrived: true, message: "the answer is late")
        case 4: return TransportAnswer(503)
        case 5: answer.body = Array(answer.body.prefix(answer.body.count * Int(share) / 10))
        default: break
        }
        return answer
    }
}

extension TransportAnswer {
    /// A listing: paths, a collection where there is a slash at the end.
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
