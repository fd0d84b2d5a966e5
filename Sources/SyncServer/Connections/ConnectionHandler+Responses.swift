import HTTPTypes
import NIOCore
import NIOHTTPTypes
import SyncService

/// The part of a long answer that is not written yet, and the reserved bytes of the answer.
struct OutgoingBody {
    var rest: ByteBuffer
    var budget: ResponseBudget?
}

extension ConnectionHandler {
    /// The approximate length of an answer's header, in bytes.
    private static let headByteCount = 256

    /// Sends an answer that is not an event stream.
    func send(_ answer: ServiceResponse, _ exchange: Exchange, _ budget: ResponseBudget? = nil) {
        guard let context else {
            budget?.release()
            return
        }
        let responder = door.responder
        let bytes: [UInt8] = if case .bytes(let bytes) = answer.body, exchange.method != .head { bytes } else { [] }
        let head = responder.head(of: answer, isLast: !isStream && (state.isLast || isEnding))
        responder.record(answer, exchange, byteCount: bytes.count)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        guard bytes.count <= Exchange.pieceByteCount else {
            outgoing = OutgoingBody(rest: context.channel.allocator.buffer(bytes: bytes), budget: budget)
            return sendPiece()
        }
        if !bytes.isEmpty {
            context.write(wrapOutboundOut(.body(context.channel.allocator.buffer(bytes: bytes))), promise: nil)
        }
        // NIO buffers the writes of an HTTP/2 stream until the client opens the window; the bytes are counted until
        // then.
        sendEnd(budget, isTracked: budget?.isTaken == true)
        unflushedByteCount += bytes.count + Self.headByteCount
        flushSoon()
        endAnswer()
    }

    private func sendEnd(_ budget: ResponseBudget?, isTracked: Bool) {
        guard let context else { return }
        guard isTracked, let budget else { return context.write(wrapOutboundOut(.end(nil)), promise: nil) }
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.whenComplete { _ in budget.release() }
        context.write(wrapOutboundOut(.end(nil)), promise: promise)
    }

    /// Sends the next piece of a long answer. The piece after it is sent when this one has been written to the socket.
    private func sendPiece() {
        guard let context, var body = outgoing else { return }
        guard let piece = body.rest.readSlice(length: min(Exchange.pieceByteCount, body.rest.readableBytes)),
            piece.readableBytes > 0
        else {
            outgoing = nil
            sendEnd(body.budget, isTracked: true)
            flush()
            return endAnswer()
        }
        outgoing = body
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.whenSuccess {
            bound.value.state.takePiece(NIODeadline.now())
            bound.value.sendPiece()
        }
        state.writePiece(NIODeadline.now())
        context.write(wrapOutboundOut(.body(piece)), promise: promise)
        flush()
    }

    private func endAnswer() {
        perform(state.endAnswer(NIODeadline.now()))
        if state.phase != .answering, context != nil { resumeIfPaused() }
    }

    /// Flushes once the event loop has processed all connections with pending input.
    ///
    /// Flushing the answers of many connections together needs nearly a third less processor time for each request than
    /// waking each client separately. HTTP/2 connections combine their writes themselves.
    private func flushSoon() {
        guard let context else { return }
        // Unflushed bytes in the TLS handler do not count towards writability, so they are limited here.
        guard !isStream, unflushedByteCount < Exchange.pieceByteCount else { return flush() }
        state.recordFlush()
        guard !isFlushScheduled else { return }
        isFlushScheduled = true
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.execute {
            bound.value.isFlushScheduled = false
            bound.value.flush()
        }
    }

    func flush() {
        unflushedByteCount = 0
        state.recordFlush()
        context?.flush()
    }
}

// Event streams.
extension ConnectionHandler {
    /// Sends `pieces` until they end, the client disconnects, or the server shuts down. Calls `end` in any case.
    static func send(
        _ pieces: AsyncStream<[UInt8]>, _ end: @escaping @Sendable () -> Void, _ answer: ServiceResponse,
        _ exchange: Exchange, _ bound: NIOLoopBound<ConnectionHandler>
    ) async {
        defer { end() }
        guard let ticket = bound.value.beginPieces(answer, exchange, end) else { return }
        var sent = 0
        for await piece in pieces {
            guard await bound.value.send(piece) else { break }
            sent += piece.count
        }
        bound.value.finishPieces(ticket, answer, exchange, sent)
    }

    /// Sends the header of an event stream.
    ///
    /// - Returns: the admission ticket of the stream; `nil` if the stream must not start.
    private func beginPieces(
        _ answer: ServiceResponse, _ exchange: Exchange, _ end: @escaping @Sendable () -> Void
    ) -> Budget.Ticket? {
        let (responder, admission) = (door.responder, door.admission)
        guard let context, state.phase == .answering else {
            responder.record(answer, exchange, byteCount: 0)
            return nil
        }
        guard exchange.method != .head else {
            send(ServiceResponse(answer.head, route: answer.route, caller: answer.caller), exchange)
            return nil
        }
        do throws(RequestError) {
            let ticket = try admission.take(of: admission.streams, address: exchange.client?.address)
            endPieces = end
            perform(state.beginStream())
            responder.count(answer, exchange, byteCount: 0)
            responder.metrics.beginStream()
            let head = responder.head(of: answer, isLast: !isStream)
            context.write(wrapOutboundOut(.head(head)), promise: nil)
            flush()
            // The connection carries nothing after the stream, so buffered input is discarded.
            resumeIfPaused()
            return ticket
        } catch {
            send(responder.refusal(error, to: nil), exchange)
            return nil
        }
    }

    /// Sends a piece of an event stream, and waits until it is written to the socket.
    ///
    /// - Returns: `false` if no more pieces may be sent.
    private func send(_ piece: [UInt8]) async -> Bool {
        guard let context, state.phase == .streaming, !state.isEndingStream else { return false }
        let promise = context.eventLoop.makePromise(of: Void.self)
        state.writePiece(NIODeadline.now())
        context.write(wrapOutboundOut(.body(context.channel.allocator.buffer(bytes: piece))), promise: promise)
        flush()
        // A failed connection ends its stream.
        guard (try? await promise.futureResult.get()) != nil else { return false }
        state.takePiece(NIODeadline.now())
        return !state.isEndingStream
    }

    private func finishPieces(_ ticket: Budget.Ticket, _ answer: ServiceResponse, _ exchange: Exchange, _ sent: Int) {
        ticket.give()
        door.responder.metrics.endStream()
        door.responder.log(answer, exchange, byteCount: sent)
        endPieces = nil
        guard let context else { return }
        context.write(wrapOutboundOut(.end(nil)), promise: nil)
        flush()
        endAnswer()
    }
}
