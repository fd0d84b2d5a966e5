import HTTPTypes
import NIOCore
import NIOHTTPTypes
import SyncService

/// The part of a long answer that is not written yet, and the room that the answer has taken.
struct OutgoingBody {
    var rest: ByteBuffer
    var room: AnswerBudget?
}

extension ConnectionHandler {
    /// The approximate length of an answer's header, in bytes.
    private static let headByteCount = 256

    /// Sends an answer, except for a stream of events.
    func send(_ answer: ServiceAnswer, _ exchange: Exchange, _ room: AnswerBudget? = nil) {
        guard let context else {
            room?.release()
            return
        }
        let responder = door.responder
        let bytes: [UInt8] = if case .bytes(let bytes) = answer.body, exchange.method != .head { bytes } else { [] }
        let head = responder.head(of: answer, isLast: !isStream && (state.isLast || isEnding))
        responder.note(answer, exchange, byteCount: bytes.count)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        guard bytes.count <= Exchange.pieceByteCount else {
            outgoing = OutgoingBody(rest: context.channel.allocator.buffer(bytes: bytes), room: room)
            return sendPiece()
        }
        if !bytes.isEmpty {
            context.write(wrapOutboundOut(.body(context.channel.allocator.buffer(bytes: bytes))), promise: nil)
        }
        // NIO buffers writes to a stream of HTTP/2 until the client opens its window.
        sendEnd(room, isTracked: room?.isTaken == true)
        unflushedByteCount += bytes.count + Self.headByteCount
        flushSoon()
        endAnswer()
    }

    private func sendEnd(_ room: AnswerBudget?, isTracked: Bool) {
        guard let context else { return }
        guard isTracked, let room else { return context.write(wrapOutboundOut(.end(nil)), promise: nil) }
        let promise = context.eventLoop.makePromise(of: Void.self)
        promise.futureResult.whenComplete { _ in room.release() }
        context.write(wrapOutboundOut(.end(nil)), promise: promise)
    }

    /// Sends the next piece of a long answer. The one after it waits until this one is taken.
    private func sendPiece() {
        guard let context, var body = outgoing else { return }
        guard let piece = body.rest.readSlice(length: min(Exchange.pieceByteCount, body.rest.readableBytes)),
            piece.readableBytes > 0
        else {
            outgoing = nil
            sendEnd(body.room, isTracked: true)
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

    /// Flushes once the loop has looked at all connections that have something to read.
    ///
    /// Flushed one by one, each answer would wake its client, and client and server would take turns on the processors;
    /// flushed together they need nearly a third less for each request. A connection of HTTP/2 gathers by itself.
    private func flushSoon() {
        guard let context else { return }
        // Unflushed bytes in the TLS handler do not count towards writability.
        guard !isStream, unflushedByteCount < Exchange.pieceByteCount else { return flush() }
        state.noteFlush()
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
        state.noteFlush()
        context?.flush()
    }
}

// Streams of events.
extension ConnectionHandler {
    /// Sends `pieces` until they end, the client goes away, or the server ends; then lets `end` stop them.
    static func send(
        _ pieces: AsyncStream<[UInt8]>, _ end: @escaping @Sendable () -> Void, _ answer: ServiceAnswer,
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

    /// Sends the header of a stream; `nil` when the stream must not begin.
    private func beginPieces(
        _ answer: ServiceAnswer, _ exchange: Exchange, _ end: @escaping @Sendable () -> Void
    ) -> Budget.Ticket? {
        let (responder, admission) = (door.responder, door.admission)
        guard let context, state.phase == .answering else {
            responder.note(answer, exchange, byteCount: 0)
            return nil
        }
        guard exchange.method != .head else {
            send(ServiceAnswer(answer.response, route: answer.route, caller: answer.caller), exchange)
            return nil
        }
        do throws(RefusedRequest) {
            let ticket = try admission.take(of: admission.streams, address: exchange.client?.address)
            endPieces = end
            perform(state.beginStream())
            responder.count(answer, exchange, byteCount: 0)
            responder.metrics.beginStream()
            let head = responder.head(of: answer, isLast: !isStream)
            context.write(wrapOutboundOut(.head(head)), promise: nil)
            flush()
            // The connection carries nothing else: what waits is discarded.
            resumeIfPaused()
            return ticket
        } catch {
            send(responder.refusal(error, to: nil), exchange)
            return nil
        }
    }

    /// Sends a piece, and waits until it is taken; `false` when no more are to be sent.
    private func send(_ piece: [UInt8]) async -> Bool {
        guard let context, state.phase == .streaming, !state.isEndingStream else { return false }
        let promise = context.eventLoop.makePromise(of: Void.self)
        state.writePiece(NIODeadline.now())
        context.write(wrapOutboundOut(.body(context.channel.allocator.buffer(bytes: piece))), promise: promise)
        flush()
        // A connection that fails ends its stream.
        guard (try? await promise.futureResult.get()) != nil else { return false }
        state.takePiece(NIODeadline.now())
        return !state.isEndingStream
    }

    private func finishPieces(_ ticket: Budget.Ticket, _ answer: ServiceAnswer, _ exchange: Exchange, _ sent: Int) {
        door.admission.streams.give(ticket)
        door.responder.metrics.endStream()
        door.responder.log(answer, exchange, byteCount: sent)
        endPieces = nil
        guard let context else { return }
        context.write(wrapOutboundOut(.end(nil)), promise: nil)
        flush()
        endAnswer()
    }
}
