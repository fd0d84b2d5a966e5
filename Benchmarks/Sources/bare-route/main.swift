// The limit of the stack: a server that does nothing but send the same bytes, by what `syncd serve` listens with.
//
//     bare-route [--port PORT] [--size BYTES]
//
// When it is ready it prints "listening on URL". SIGTERM and SIGINT end it.

import Foundation
import HTTPTypes
import HummingbirdCore
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import UnixSignals

func number(after name: String, or usual: Int, in range: ClosedRange<Int>) -> Int {
    guard let place = CommandLine.arguments.firstIndex(of: name) else { return usual }
    guard place + 1 < CommandLine.arguments.count, let value = Int(CommandLine.arguments[place + 1]),
        range.contains(value)
    else {
        FileHandle.standardError.write(
            Data("bare-route: \(name) takes a number from \(range.lowerBound) to \(range.upperBound)\n".utf8))
        exit(2)
    }
    return value
}

let port = number(after: "--port", or: 0, in: 0...65_535)
let document = ByteBuffer(repeating: UInt8(ascii: "x"), count: number(after: "--size", or: 300, in: 0...1 << 20))
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
