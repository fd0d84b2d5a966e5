// The upper bound: a server on the libraries of `syncd serve` that answers every request with the same bytes.
//
//     bare-route [--port PORT] [--size BYTES]
//
// Prints "listening on URL" when it is ready. SIGTERM and SIGINT end it.

import BenchmarkSupport
import Foundation
import HTTPTypes
import HummingbirdCore
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import UnixSignals

var arguments = Arguments(usage: "bare-route [--port PORT] [--size BYTES]")
let port = arguments.number("--port", in: 0...65_535) ?? 0
let document = ByteBuffer(
    repeating: UInt8(ascii: "x"), count: arguments.number("--size", in: 0...(1 << 20)) ?? 300)
arguments.end()
let length = String(document.readableBytes)
var logger = Logger(label: "bare-route")
logger.logLevel = .error

let http1 = HTTP1Channel(
    responder: { request, writer, _ in
        for try await _ in request.body {}
        var head = HTTPResponse(status: .ok)
        head.headerFields[.contentType] = "application/octet-stream"
        head.headerFields[.contentLength] = length
        try await writer.write(response: head, body: ResponseBody(byteBuffer: document))
    }, configuration: HTTP1Channel.Configuration(idleTimeout: .seconds(60)))
let server = http1.server(
    configuration: ServerConfiguration(address: .hostname("127.0.0.1", port: port), backlog: 1_024),
    onServerRunning: { channel in
        FileHandle.standardOutput.write(
            Data("listening on http://127.0.0.1:\(channel.localAddress?.port ?? port)\n".utf8))
    },
    eventLoopGroup: .singletonMultiThreadedEventLoopGroup, logger: logger)
try await ServiceGroup(
    configuration: ServiceGroupConfiguration(
        services: [server], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
).run()
