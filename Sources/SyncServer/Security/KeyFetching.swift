public import HTTPTypes
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
public import SyncProtocol

/// Fetches small documents, a connection for each: the keys of an issuer. Certificates are verified against the
/// system's.
public struct KeyFetching: HTTPTransport {
    private typealias Connection = NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>
    private struct Timeout: Error {}
    private struct Excess: Error {}
    private struct Cut: Error {}

    /// A transport without settings.
    public init() {}

    /// Sends a request without body over HTTP/1.1; see `HTTPTransport`.
    public func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        guard body.isEmpty, let place = Place(request) else {
            throw TransportError(.other, mayHaveArrived: false, message: "only documents of http and https are fetched")
        }
        let limit = TimeAmount(timeout)
        let connection: Connection
        do {
            connection = try await Self.connect(place, limit)
        } catch let error as NIOSSLError {
            throw TransportError(.untrusted, mayHaveArrived: false, message: "\(place.host): \(error)")
        } catch {
            throw TransportError(
                .unreachable, mayHaveArrived: false, message: "\(place.host):\(place.port) does not answer: \(error)")
        }
        do {
            return try await Self.exchange(request, place, over: connection, limit, maximumByteCount)
        } catch is Timeout {
            throw TransportError(.timedOut, mayHaveArrived: true, message: "\(place.host) took too long")
        } catch is Excess {
            throw TransportError(.tooLarge, mayHaveArrived: true, message: "\(place.host) answered too much")
        } catch let error as NIOSSLError {
            throw TransportError(.untrusted, mayHaveArrived: false, message: "\(place.host): \(error)")
        } catch {
            throw TransportError(.interrupted, mayHaveArrived: true, message: "\(place.host): \(error)")
        }
    }

    private struct Place {
        var host: String
        var port: Int
        var isSecure: Bool
        var isName: Bool

        init?(_ request: HTTPRequest) {
            guard let authority = request.authority, request.scheme == "https" || request.scheme == "http" else {
                return nil
            }
            isSecure = request.scheme == "https"
            var host = authority[...]
            port = isSecure ? 443 : 80
            if let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") {
                guard let number = UInt16(authority[colon...].dropFirst()) else { return nil }
                port = Int(number)
                host = authority[..<colon]
            }
            self.host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : String(host)
            isName = (try? SocketAddress(ipAddress: self.host, port: port)) == nil
        }
    }

    private static func connect(_ place: Place, _ limit: TimeAmount) async throws -> Connection {
        let security = place.isSecure ? try NIOSSLContext(configuration: .makeClientConfiguration()) : nil
        return try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup).connectTimeout(limit)
            .connect(host: place.host, port: place.port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let security {
                        // Numbers are compared with those in the certificate, and are no name to ask for.
                        let handler = try NIOSSLClientHandler(
                            context: security, serverHostname: place.isName ? place.host : nil)
                        try channel.pipeline.syncOperations.addHandler(handler)
                    }
                    try channel.pipeline.syncOperations.addHTTPClientHandlers()
                    return try Connection(wrappingChannelSynchronously: channel)
                }
            }
    }

    private static func exchange(
        _ request: HTTPRequest, _ place: Place, over connection: Connection, _ limit: TimeAmount, _ byteCount: Int
    ) async throws -> TransportAnswer {
        let pipeline = connection.channel.pipeline
        let deadline = connection.channel.eventLoop.scheduleTask(in: limit) { pipeline.fireErrorCaught(Timeout()) }
        defer { deadline.cancel() }
        var head = HTTPRequestHead(version: .http1_1, method: .GET, uri: request.path ?? "/")
        head.headers.add(name: "Host", value: request.authority ?? place.host)
        head.headers.add(name: "Connection", value: "close")
        for field in request.headerFields { head.headers.add(name: field.name.rawName, value: field.value) }
        let asked = head
        return try await connection.executeThenClose { inbound, outbound in
            try await outbound.write(contentsOf: [.head(asked), .end(nil)])
            var answer: TransportAnswer?
            for try await part in inbound {
                switch part {
                case .head(let head):
                    answer = TransportAnswer(HTTPResponse(status: .init(code: Int(head.status.code))))
                case .body(let bytes):
                    answer?.body.append(contentsOf: bytes.readableBytesView)
                    if let count = answer?.body.count, count > byteCount { throw Excess() }
                case .end:
                    if let answer { return answer }
                }
            }
            throw Cut()
        }
    }
}
