import NIOCore

/// The state of one HTTP/1 connection, or of one HTTP/2 stream.
///
/// It does no I/O and reads no clock: ``ConnectionHandler`` reports each event with its time, and performs the returned
/// ``Action``. All timeouts of a connection are deadlines of this state and take effect at the next
/// ``tick(_:isUnsent:)``.
struct ConnectionState {
    enum Phase: Equatable {
        /// There is no current request.
        case idle
        /// The header of a request has arrived, but not its end.
        case receiving
        /// A request is being processed, or its answer written. A refused request may be incomplete.
        case answering
        /// The answer is an event stream.
        case streaming
        /// The last answer is written. The connection closes when the client has received it.
        case draining
        /// The output side is closed. Input is discarded until the client closes its side too; a reset could destroy
        /// the last answer.
        case halfClosed
        case closed
    }

    enum Action: Equatable {
        case none
        /// Close the connection, or reset the stream, without waiting for anything.
        case close
        /// Like ``close``, because the client was too slow.
        case closeSlow
        /// Flush, then call ``ConnectionState/flushed(_:isUnsent:)``.
        case flush
        /// Close the output side.
        case closeOutput
        /// Refuse the request, because its body did not arrive in time.
        case refuseLateBody
        /// End the event stream.
        case endStream
    }

    /// The timeouts of a connection.
    struct Timeouts: Sendable {
        var handshake, header, idle, silence, body, lateBody, write, shutdown: TimeAmount
        /// The number of bytes of a body that must arrive in each `body` period. With fewer the body is refused.
        var leastBodyByteCount: Int
        /// The time for the client to close its side after the last answer.
        var close = TimeAmount.seconds(1)
        /// The time for the first request of a connection that was accepted shortly before the shutdown.
        var firstRequest = TimeAmount.seconds(1)
        /// The time for the client to receive the last piece of an event stream that the server ends.
        var streamEnd = TimeAmount.seconds(2)

        init(_ configuration: ListenerConfiguration) {
            handshake = .seconds(configuration.handshakeSeconds)
            header = .seconds(configuration.headerSeconds)
            idle = .seconds(configuration.idleSeconds)
            silence = .seconds(configuration.silenceSeconds)
            body = .seconds(configuration.bodySeconds)
            lateBody = .seconds(configuration.lateBodySeconds)
            write = .seconds(configuration.writeSeconds)
            shutdown = .seconds(configuration.shutdownSeconds)
            leastBodyByteCount = Int(configuration.bodySeconds) * configuration.minimumByteRate
        }
    }

    private let timeouts: Timeouts
    /// True for an HTTP/2 stream. Timeouts between requests are then those of its connection.
    private let isStream: Bool

    private(set) var phase = Phase.idle
    /// True if the connection closes after the current answer.
    private(set) var isLast = false
    /// True while the server is shutting down.
    private(set) var isQuiescing = false
    /// True if the client has closed its side.
    private(set) var isInputClosed = false
    /// True if no more pieces of the event stream may be sent.
    private(set) var isEndingStream = false
    /// True if the current request was refused before it was complete.
    private var isIncomplete = false
    /// True until the first request. Its bytes may already be here when the shutdown starts, so the connection waits
    /// for them.
    private var isNew = true
    /// The last time that input arrived or all output had been sent.
    private var latestActivity: NIODeadline
    /// True if output was flushed that may not be sent yet.
    private var isFlushed = false
    /// The bytes of the body since `bodyEnd` was set, or the discarded bytes.
    private var byteCount = 0
    private var headerEnd, bodyEnd, writeEnd, stallEnd, closeEnd: NIODeadline?

    /// The maximum number of input bytes that are discarded while a connection closes.
    private static let discardedByteCount = 1 << 20

    init(_ timeouts: Timeouts, isStream: Bool, now: NIODeadline) {
        (self.timeouts, self.isStream) = (timeouts, isStream)
        latestActivity = now
        headerEnd = isStream ? nil : now + timeouts.header
    }
}

// Requests.
extension ConnectionState {
    /// Records the header of a request.
    ///
    /// - Parameter closes: `true` if the client expects the connection to close after the answer.
    mutating func receiveHead(closes: Bool) {
        (phase, headerEnd, bodyEnd, byteCount, isIncomplete) = (.receiving, nil, nil, 0, false)
        (isNew, closeEnd) = (false, nil)
        if closes { isLast = true }
    }

    /// Records `count` more bytes of a body.
    mutating func receiveBody(_ count: Int) -> Action {
        byteCount += count
        guard phase == .draining || phase == .halfClosed || isIncomplete else { return .none }
        return byteCount > Self.discardedByteCount ? .close : .none
    }

    /// Records the end of a request.
    mutating func receiveEnd() {
        if phase == .receiving { (phase, bodyEnd) = (.answering, nil) }
        if phase != .draining { isIncomplete = false }
    }

    /// Records that an incomplete request is refused.
    mutating func refuse() {
        (phase, bodyEnd, byteCount, isIncomplete) = (.answering, nil, 0, true)
        isLast = true
    }

    /// Records that all available input has been read.
    ///
    /// - Parameter isPartial: `true` if the input did not complete any part of a request.
    mutating func completeRead(_ now: NIODeadline, isPartial: Bool) {
        latestActivity = now
        switch phase {
        case .idle where isPartial && !isStream: headerEnd = headerEnd ?? now + timeouts.header
        case .receiving where bodyEnd == nil:
            bodyEnd = now + (isQuiescing ? timeouts.lateBody : timeouts.body)
            byteCount = 0
        default: break
        }
    }
}

// Answers.
extension ConnectionState {
    /// Starts an event stream. An HTTP/1 connection carries nothing after it.
    mutating func beginStream() -> Action {
        (phase, isLast) = (.streaming, true)
        guard isQuiescing || isInputClosed else { return .none }
        return .endStream
    }

    /// Ends the event stream: the client must receive the current piece within ``Timeouts/streamEnd``.
    mutating func endStream(_ now: NIODeadline) {
        isEndingStream = true
        closeEnd = closeEnd ?? now + timeouts.streamEnd
    }

    /// Records that a piece of an answer was written. The client must receive it within the write timeout.
    mutating func writePiece(_ now: NIODeadline) { writeEnd = now + timeouts.write }

    /// Records that the piece was written to the socket.
    mutating func takePiece(_ now: NIODeadline) { (writeEnd, latestActivity) = (nil, now) }

    /// Records a flush.
    mutating func recordFlush() { isFlushed = true }

    /// Records a change of writability.
    mutating func changeWritability(_ isWritable: Bool, _ now: NIODeadline) {
        stallEnd = isWritable ? nil : now + timeouts.write
    }

    /// Records that the whole answer is written.
    mutating func endAnswer(_ now: NIODeadline) -> Action {
        guard phase == .answering || phase == .streaming else { return .none }
        if isStream {
            // The stream closes when the client has received the answer.
            phase = .draining
            closeEnd = now + (isIncomplete ? timeouts.close : timeouts.write)
            return .none
        }
        guard isLast else {
            (phase, latestActivity) = (.idle, now)
            return .none
        }
        return finish(now)
    }

    /// Records the last flush.
    ///
    /// - Parameter isUnsent: `true` if the kernel has not accepted all of the output yet.
    mutating func flushed(_ now: NIODeadline, isUnsent: Bool) -> Action {
        guard phase == .draining, !isStream, !isUnsent else { return .none }
        guard !isInputClosed else { return .close }
        (phase, closeEnd) = (.halfClosed, now + timeouts.close)
        return .closeOutput
    }

    private mutating func finish(_ now: NIODeadline) -> Action {
        guard phase != .draining, phase != .halfClosed, phase != .closed else { return .none }
        (phase, isLast, headerEnd, bodyEnd) = (.draining, true, nil, nil)
        closeEnd = now + min(timeouts.write, timeouts.shutdown)
        return .flush
    }
}

// Closing.
extension ConnectionState {
    /// Records that the client has closed its side. Earlier requests are still answered.
    mutating func closeInput() -> Action {
        isInputClosed = true
        switch phase {
        case .streaming: return .endStream
        case .halfClosed: return .close
        default: return .none
        }
    }

    /// Records that no input is buffered: all of it is answered, or is part of the current request.
    mutating func settle(_ now: NIODeadline) -> Action {
        switch phase {
        case .idle where !isStream && (isInputClosed || isQuiescing && !isNew): finish(now)
        // An incomplete request must not be processed.
        case .receiving where isInputClosed: .close
        default: .none
        }
    }

    /// Starts the shutdown. Requests that were received are still answered.
    mutating func quiesce(_ now: NIODeadline) -> Action {
        guard !isQuiescing else { return .none }
        isQuiescing = true
        switch phase {
        case .receiving: (bodyEnd, byteCount) = (now + timeouts.lateBody, 0)
        case .streaming: return .endStream
        case .idle where isNew && !isStream: closeEnd = now + timeouts.firstRequest
        default: break
        }
        return .none
    }

    /// Records that the connection is closed.
    mutating func close() { phase = .closed }

    /// Checks the deadlines.
    ///
    /// - Parameter isUnsent: `true` if the kernel has not accepted all of the output yet.
    mutating func tick(_ now: NIODeadline, isUnsent: @autoclosure () -> Bool) -> Action {
        guard phase != .closed else { return .none }
        if isFlushed, !isUnsent() { (isFlushed, latestActivity) = (false, now) }
        if Self.isDue(writeEnd, now) || Self.isDue(stallEnd, now) || Self.isDue(headerEnd, now) { return .closeSlow }
        if !isStream, latestActivity + timeouts.silence <= now { return .closeSlow }
        switch phase {
        case .idle:
            if isNew, Self.isDue(closeEnd, now) { return .close }
            return isStream || latestActivity + timeouts.idle > now ? .none : .close
        case .receiving: return tickBody(now)
        case .answering, .closed: return .none
        case .streaming, .halfClosed: return Self.isDue(closeEnd, now) ? .close : .none
        case .draining:
            if Self.isDue(closeEnd, now) { return isStream && !isIncomplete ? .closeSlow : .close }
            return flushed(now, isUnsent: isUnsent())
        }
    }

    private mutating func tickBody(_ now: NIODeadline) -> Action {
        guard Self.isDue(bodyEnd, now) else {
            return isStream || latestActivity + timeouts.idle > now ? .none : .close
        }
        guard !isQuiescing, byteCount >= timeouts.leastBodyByteCount else { return .refuseLateBody }
        (bodyEnd, byteCount) = (now + timeouts.body, 0)
        return .none
    }

    private static func isDue(_ deadline: NIODeadline?, _ now: NIODeadline) -> Bool {
        deadline.map { $0 <= now } ?? false
    }
}
