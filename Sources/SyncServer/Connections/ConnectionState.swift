import NIOCore

/// The state of one HTTP/1 connection, or of one HTTP/2 stream.
///
/// It does no I/O and reads no clock: ``ConnectionHandler`` reports what happens, with the time, and performs the
/// ``Action`` that comes back. Every timeout of a connection is a deadline in here and takes effect at the next
/// ``tick(_:isUnsent:)``.
struct ConnectionState {
    enum Phase: Equatable {
        /// No request is open.
        case idle
        /// The header of a request has come, its end has not.
        case receiving
        /// The answer to a request is being made or written. The request itself may be incomplete when it was refused.
        case answering
        /// The answer is a stream of events.
        case streaming
        /// The last answer is written. The connection closes when the client has taken it.
        case draining
        /// The output side is closed. Input is discarded until the client closes too, so that the last answer is not
        /// lost to a reset.
        case halfClosed
        case closed
    }

    enum Action: Equatable {
        case none
        /// Close the connection, or reset the stream, without waiting for anything.
        case close
        /// As ``close``, because the client was too slow.
        case closeSlow
        /// Flush; then report ``ConnectionState/flushed(_:isUnsent:)``.
        case flush
        /// Close the output side.
        case closeOutput
        /// Refuse the request: its body did not come in time.
        case refuseLateBody
        /// End the stream of events.
        case endStream
    }

    /// The timeouts of a connection.
    struct Timeouts: Sendable {
        var handshake, header, idle, silence, body, lateBody, write, shutdown: TimeAmount
        /// The number of bytes of a body that must arrive in each `body` period to be granted another.
        var leastBodyByteCount: Int
        /// For the client to close its side after the last answer.
        var close = TimeAmount.seconds(1)
        /// For the client to take the last piece of a stream that the server ends.
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
            leastBodyByteCount = Int(configuration.bodySeconds) * configuration.leastByteRate
        }
    }

    private let timeouts: Timeouts
    /// Indicates whether this is a stream of HTTP/2. The connection below it has the timeouts between requests.
    private let isStream: Bool

    private(set) var phase = Phase.idle
    /// Indicates whether the connection closes after the current answer.
    private(set) var isLast = false
    /// Indicates whether the server is shutting down.
    private(set) var isQuiescing = false
    /// Indicates whether the client has closed its side.
    private(set) var hasLeft = false
    /// Indicates whether no more pieces of the stream of events are to be sent.
    private(set) var isEndingStream = false
    /// Indicates whether the current request was refused before all of it had come.
    private var isIncomplete = false
    /// The last time that input arrived or all output had been sent.
    private var latestMove: NIODeadline
    private var isFlushed = false
    /// The bytes of the body since `bodyEnd` was set, or the bytes that were discarded.
    private var byteCount = 0
    private var headerEnd, bodyEnd, writeEnd, stallEnd, closeEnd: NIODeadline?

    /// The most bytes of input that are discarded while a connection closes.
    private static let discardedByteCount = 1 << 20

    init(_ timeouts: Timeouts, isStream: Bool, now: NIODeadline) {
        (self.timeouts, self.isStream) = (timeouts, isStream)
        latestMove = now
        headerEnd = isStream ? nil : now + timeouts.header
    }
}

// Requests.
extension ConnectionState {
    /// The header of a request has come. `closes` says that the client expects the connection to close after the
    /// answer.
    mutating func receiveHead(closes: Bool) {
        (phase, headerEnd, bodyEnd, byteCount, isIncomplete) = (.receiving, nil, nil, 0, false)
        if closes { isLast = true }
    }

    /// `count` more bytes of a body have come.
    mutating func receiveBody(_ count: Int) -> Action {
        byteCount += count
        guard phase == .draining || phase == .halfClosed || isIncomplete else { return .none }
        return byteCount > Self.discardedByteCount ? .close : .none
    }

    /// The end of a request has come.
    mutating func receiveEnd() {
        if phase == .receiving { (phase, bodyEnd) = (.answering, nil) }
        if phase != .draining { isIncomplete = false }
    }

    /// The request is refused, although the rest of it has not come.
    mutating func refuse() {
        (phase, bodyEnd, byteCount, isIncomplete) = (.answering, nil, 0, true)
        isLast = true
    }

    /// Everything that was available has been read. `isPartial` says that it was no part of a request yet.
    mutating func completeRead(_ now: NIODeadline, isPartial: Bool) {
        latestMove = now
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
    /// The answer is a stream of events. A connection of HTTP/1 carries nothing after it.
    mutating func beginStream() -> Action {
        (phase, isLast) = (.streaming, true)
        guard isQuiescing || hasLeft else { return .none }
        return .endStream
    }

    /// The server ends its stream of events: the piece that is under way must be taken soon.
    mutating func endStream(_ now: NIODeadline) {
        isEndingStream = true
        closeEnd = closeEnd ?? now + timeouts.streamEnd
    }

    /// A piece of an answer was written, and has to be taken in time.
    mutating func writePiece(_ now: NIODeadline) { writeEnd = now + timeouts.write }

    /// The client, or the kernel for it, has taken the piece.
    mutating func takePiece(_ now: NIODeadline) { (writeEnd, latestMove) = (nil, now) }

    /// Something was flushed.
    mutating func noteFlush() { isFlushed = true }

    /// The connection has room for more output, or no longer has any.
    mutating func changeWritability(_ isWritable: Bool, _ now: NIODeadline) {
        stallEnd = isWritable ? nil : now + timeouts.write
    }

    /// All of an answer is written.
    mutating func endAnswer(_ now: NIODeadline) -> Action {
        guard phase == .answering || phase == .streaming else { return .none }
        if isStream {
            // The stream closes by itself when the client has taken the answer.
            phase = .draining
            closeEnd = now + (isIncomplete ? timeouts.close : timeouts.write)
            return .none
        }
        guard isLast else {
            (phase, latestMove) = (.idle, now)
            return .none
        }
        return finish(now)
    }

    /// The output was flushed for the last time. `isUnsent` says that the kernel has not taken all of it.
    mutating func flushed(_ now: NIODeadline, isUnsent: Bool) -> Action {
        guard phase == .draining, !isStream, !isUnsent else { return .none }
        guard !hasLeft else { return .close }
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

// The ends of a connection.
extension ConnectionState {
    /// The client has closed its side. Requests that came before are still answered.
    mutating func leave() -> Action {
        hasLeft = true
        switch phase {
        case .streaming: return .endStream
        case .halfClosed: return .close
        default: return .none
        }
    }

    /// Everything that has come so far is answered, or is part of a request.
    mutating func settle(_ now: NIODeadline) -> Action {
        switch phase {
        case .idle where !isStream && (hasLeft || isQuiescing): finish(now)
        // A part of a request must not be taken for all of it.
        case .receiving where hasLeft: .close
        default: .none
        }
    }

    /// The server is shutting down. Requests that were received are still answered.
    mutating func quiesce(_ now: NIODeadline) -> Action {
        guard !isQuiescing else { return .none }
        isQuiescing = true
        switch phase {
        case .receiving: (bodyEnd, byteCount) = (now + timeouts.lateBody, 0)
        case .streaming: return .endStream
        default: break
        }
        return .none
    }

    /// The connection is closed.
    mutating func close() { phase = .closed }

    /// Some time has passed. `isUnsent` says that the kernel has not taken all of the output.
    mutating func tick(_ now: NIODeadline, isUnsent: @autoclosure () -> Bool) -> Action {
        guard phase != .closed else { return .none }
        if isFlushed, !isUnsent() { (isFlushed, latestMove) = (false, now) }
        if Self.isDue(writeEnd, now) || Self.isDue(stallEnd, now) || Self.isDue(headerEnd, now) { return .closeSlow }
        if !isStream, latestMove + timeouts.silence <= now { return .closeSlow }
        switch phase {
        case .idle: return isStream || latestMove + timeouts.idle > now ? .none : .close
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
            return isStream || latestMove + timeouts.idle > now ? .none : .close
        }
        guard !isQuiescing, byteCount >= timeouts.leastBodyByteCount else { return .refuseLateBody }
        (bodyEnd, byteCount) = (now + timeouts.body, 0)
        return .none
    }

    private static func isDue(_ deadline: NIODeadline?, _ now: NIODeadline) -> Bool {
        deadline.map { $0 <= now } ?? false
    }
}
