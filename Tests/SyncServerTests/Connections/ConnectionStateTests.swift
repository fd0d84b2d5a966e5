import NIOCore
import Testing

@testable import SyncServer

@Suite("The state of a connection")
struct ConnectionStateTests {
    private static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
    private let timeouts: ConnectionState.Timeouts = {
        var limits = ListenerConfiguration(port: 0)
        (limits.headerSeconds, limits.idleSeconds, limits.silenceSeconds) = (20, 60, 120)
        (limits.bodySeconds, limits.lateBodySeconds, limits.writeSeconds) = (30, 2, 30)
        (limits.shutdownSeconds, limits.minimumByteRate) = (10, 100)
        return ConnectionState.Timeouts(limits)
    }()

    private func time(_ seconds: Int64) -> NIODeadline { Self.start + .seconds(seconds) }

    private func connection(isStream: Bool = false) -> ConnectionState {
        ConnectionState(timeouts, isStream: isStream, now: Self.start)
    }

    /// Receives a request without a body.
    private func receive(_ state: inout ConnectionState, at seconds: Int64, closes: Bool = false) {
        state.receiveHead(closes: closes)
        state.receiveEnd()
        state.completeRead(time(seconds), isPartial: false)
    }

    /// The second at which `state` first returns `action`; `nil` if it does not within an hour.
    private func second(of action: ConnectionState.Action, _ state: ConnectionState, isUnsent: Bool = false) -> Int64? {
        var state = state
        return (0...3_600).first { state.tick(time($0), isUnsent: isUnsent) == action }
    }

    @Test("A connection without a request closes after the header timeout")
    func noHeader() {
        #expect(second(of: .closeSlow, connection()) == 20)
    }

    @Test("An incomplete header does not extend the header timeout")
    func partialHeader() {
        var state = connection()
        for seconds: Int64 in 1...19 { state.completeRead(time(seconds), isPartial: true) }
        #expect(second(of: .closeSlow, state) == 20)
    }

    @Test("A connection closes after the idle timeout, or the header timeout of a second header")
    func secondHeader() {
        var state = connection()
        receive(&state, at: 5)
        #expect(state.phase == .answering)
        #expect(state.endAnswer(time(6)) == .none)
        #expect(second(of: .close, state) == 66)
        state.completeRead(time(30), isPartial: true)
        #expect(second(of: .closeSlow, state) == 50)
    }

    @Test("A silent connection closes after the silence timeout, even while a request is processed")
    func silence() {
        var state = connection()
        receive(&state, at: 5)
        #expect(second(of: .closeSlow, state) == 125)
    }

    @Test("A body is refused if it does not arrive at the minimum rate after its first period")
    func slowBody() {
        for (count, expected) in [(0, Int64(40)), (2_999, 40), (3_000, 70)] {
            var state = connection(isStream: true)
            state.receiveHead(closes: false)
            state.completeRead(time(10), isPartial: false)
            #expect(state.receiveBody(count) == .none)
            #expect(second(of: .refuseLateBody, state) == expected)
        }
    }

    @Test("During shutdown a body gets the late-body timeout, however much of it has arrived")
    func lateBody() {
        var state = connection(isStream: true)
        state.receiveHead(closes: false)
        state.completeRead(time(10), isPartial: false)
        #expect(state.receiveBody(100_000) == .none)
        #expect(state.quiesce(time(12)) == .none)
        #expect(second(of: .refuseLateBody, state) == 14)
    }

    @Test("A refused request closes the connection after its answer, and discards limited input")
    func refusal() {
        var state = connection()
        state.receiveHead(closes: false)
        state.refuse()
        #expect(state.isLast)
        #expect(state.endAnswer(time(5)) == .flush)
        #expect(state.flushed(time(5), isUnsent: true) == .none)
        #expect(state.tick(time(6), isUnsent: false) == .closeOutput)
        #expect(state.phase == .halfClosed)
        #expect(state.receiveBody(1 << 20) == .none)
        #expect(state.receiveBody(1) == .close)
        #expect(state.tick(time(7), isUnsent: false) == .close)
    }

    @Test("An unread answer closes the connection after the write timeout")
    func stalledWrite() {
        var state = connection()
        receive(&state, at: 5)
        state.writePiece(time(6))
        #expect(second(of: .closeSlow, state, isUnsent: true) == 36)
        state.takePiece(time(20))
        state.writePiece(time(20))
        #expect(second(of: .closeSlow, state, isUnsent: true) == 50)
    }

    @Test("An HTTP/2 stream with an unread answer closes after the write timeout")
    func unreadStream() {
        var state = connection(isStream: true)
        receive(&state, at: 5)
        #expect(state.endAnswer(time(6)) == .none)
        #expect(second(of: .closeSlow, state) == 36)
    }

    @Test(
        "An unwritable connection or stream closes after the write timeout in every phase",
        arguments: [true, false])
    func unwritable(isStream: Bool) {
        var state = connection(isStream: isStream)
        state.changeWritability(false, time(5))
        state.completeRead(time(5), isPartial: false)
        var taken = state
        taken.changeWritability(true, time(6))
        #expect(second(of: .closeSlow, taken) != 35)
        if isStream {
            #expect(second(of: .closeSlow, state) == 35)
        } else {
            #expect(second(of: .closeSlow, state) == 20)
        }
        var secure = SecureConnectionHandler.State(timeouts, now: Self.start)
        secure.open(time(0))
        secure.record(hasStreams: true, time(1))
        secure.changeWritability(false, time(5))
        #expect(secure.tick(time(34)) == .none)
        #expect(secure.tick(time(35)) == .closeSlow)
    }

    @Test("A half-closed client gets the answers to its requests, and then the connection closes")
    func leaving() {
        var state = connection()
        receive(&state, at: 5)
        #expect(state.closeInput() == .none)
        #expect(state.settle(time(5)) == .none)
        #expect(state.endAnswer(time(6)) == .none)
        #expect(state.settle(time(6)) == .flush)
        #expect(state.flushed(time(6), isUnsent: false) == .close)
    }

    @Test("A half-close in the middle of a request closes the connection")
    func cut() {
        var state = connection()
        state.receiveHead(closes: false)
        #expect(state.closeInput() == .none)
        #expect(state.settle(time(5)) == .close)
    }

    @Test("Shutdown finishes answers, ends streams and closes idle connections")
    func quiescing() {
        var idle = connection()
        receive(&idle, at: 0)
        #expect(idle.endAnswer(time(0)) == .none)
        #expect(idle.quiesce(time(1)) == .none)
        #expect(idle.settle(time(1)) == .flush)
        var answering = connection()
        receive(&answering, at: 1)
        #expect(answering.quiesce(time(2)) == .none)
        #expect(answering.endAnswer(time(3)) == .none)
        #expect(answering.settle(time(3)) == .flush)
        var streaming = connection()
        receive(&streaming, at: 1)
        #expect(streaming.beginStream() == .none)
        #expect(streaming.quiesce(time(2)) == .endStream)
        streaming.endStream(time(2))
        #expect(streaming.isEndingStream)
        #expect(second(of: .close, streaming, isUnsent: true) == 4)
    }

    @Test("A connection that was just accepted has a second for its first request when the shutdown starts")
    func new() {
        var state = connection()
        #expect(state.quiesce(time(1)) == .none)
        #expect(state.settle(time(1)) == .none)
        #expect(second(of: .close, state) == 2)
        receive(&state, at: 1)
        #expect(second(of: .close, state) == nil)
        #expect(state.endAnswer(time(2)) == .none)
        #expect(state.settle(time(2)) == .flush)
    }

    @Test("Unsent output delays shutdown for at most the shutdown timeout")
    func unsent() {
        var state = connection()
        receive(&state, at: 0)
        #expect(state.endAnswer(time(0)) == .none)
        #expect(state.quiesce(time(1)) == .none)
        #expect(state.settle(time(1)) == .flush)
        #expect(state.flushed(time(1), isUnsent: true) == .none)
        #expect(second(of: .close, state, isUnsent: true) == 11)
    }

    @Test("A TLS connection closes after the handshake timeout, and sends GOAWAY after the idle timeout")
    func secure() {
        var state = SecureConnectionHandler.State(timeouts, now: Self.start)
        #expect(state.tick(time(9)) == .none)
        var slow = state
        #expect(slow.tick(time(10)) == .closeSlow)
        state.open(time(5))
        state.record(hasStreams: true, time(6))
        #expect(state.tick(time(3_000)) == .none)
        state.record(hasStreams: false, time(3_000))
        #expect(state.tick(time(3_059)) == .none)
        #expect(state.tick(time(3_060)) == .goAway)
        #expect(state.tick(time(3_061)) == .none)
        #expect(state.tick(time(3_062)) == .close)
    }
}
