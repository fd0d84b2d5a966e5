import NIOCore
import SyncService
import Synchronization

/// Lets in a few at a time of what comes in thousands and is in no hurry: streams that open all at once after a
/// restart, and what is to be tidied up behind those that end all at once. A line for each event loop, in the order in
/// which they came.
///
/// An event loop does all that is ready before it looks again for what has come. Without this a request that needs it
/// several times waits behind thousands of streams each time.
///
/// Who waits is not known for sure yet. One address has a share of the places only, and who has a token that was
/// believed before has places and turns of his own: strangers, however many addresses they have, take none of these.
final class Turnstile: Sendable {
    /// What becomes of one who comes.
    enum Outcome: Hashable, Sendable {
        /// It is his turn.
        case admitted
        /// Too many wait: from his address, or in all.
        case refused(Refusal)
        /// He left before.
        case gone
        /// The server is about to end.
        case ended
    }

    /// How many are let in at a time.
    static let batchCount = 8
    /// When the next come, at the earliest and at the latest.
    private static let pauses = TimeAmount.milliseconds(1)...TimeAmount.milliseconds(20)

    private struct Line {
        var waiting = WaitingLine()
        var isMoving = false
        var pause = pauses.lowerBound
        /// When the next are to come.
        var due = NIODeadline.now()

        /// Sets when the next come. The loop looks what has come only when it has nothing left to do: where those
        /// before are not done when the next are due, these come later.
        mutating func schedule(at now: NIODeadline) {
            let isLate = now - due > pauses.lowerBound
            let pause = TimeAmount.nanoseconds(isLate ? pause.nanoseconds * 2 : pause.nanoseconds * 3 / 4)
            self.pause = min(max(pause, pauses.lowerBound), pauses.upperBound)
            due = now + self.pause
        }

        /// Whether somebody has to move it from now on.
        mutating func begins() -> Bool {
            guard !isMoving else { return false }
            (isMoving, due) = (true, NIODeadline.now())
            return true
        }
    }

    /// How many of a kind wait, whatever the line.
    private struct Crowd {
        var count = 0
        var countOfNetwork: [ClientAddress: Int] = [:]

        mutating func forget(_ network: ClientAddress?) {
            count -= 1
            guard let network, let count = countOfNetwork[network] else { return }
            countOfNetwork[network] = count > 1 ? count - 1 : nil
        }
    }

    private struct State {
        var lines: [ObjectIdentifier: Line] = [:]
        var (known, others) = (Crowd(), Crowd())
        var latest: UInt64 = 0
        var hasEnded = false

        mutating func withCrowd<Result>(of comer: WaitingLine.Comer, _ body: (inout Crowd) -> Result) -> Result {
            comer.isKnown ? body(&known) : body(&others)
        }
    }

    private let state = Mutex(State())
    private let capacity: Int
    private let addressCapacity: Int
    private let onRefusal: @Sendable (Refusal) -> Void

    /// - Parameters:
    ///   - capacity: how many wait who are known, at most, and how many others.
    ///   - addressCapacity: how many of these from one network; the machine itself has no such limit.
    ///   - onRefusal: is told of each that finds no place.
    init(capacity: Int, addressCapacity: Int, onRefusal: @escaping @Sendable (Refusal) -> Void = { _ in }) {
        (self.capacity, self.addressCapacity, self.onRefusal) = (capacity, addressCapacity, onRefusal)
    }

    /// Waits for a turn on `loop`.
    ///
    /// - Parameter whileWaiting: is called when there is something to wait for, with what takes it back: whoever calls
    ///   that before the turn has come ends the waiting.
    func wait(
        on loop: any EventLoop, _ comer: WaitingLine.Comer,
        _ whileWaiting: (_ leave: @escaping @Sendable () -> Void) -> Void = { _ in }
    ) async -> Outcome {
        await withCheckedContinuation { continuation in
            if let leave = enter(on: loop, comer, { continuation.resume(returning: $0) }) { whileWaiting(leave) }
        }
    }

    /// Calls `body` once: on `loop` when it is its turn, at the earliest after what the loop is at, or before with
    /// what became of it.
    ///
    /// - Returns: takes it back; `nil` where there was no place.
    @discardableResult
    func enter(
        on loop: any EventLoop, _ comer: WaitingLine.Comer, _ body: @escaping @Sendable (Outcome) -> Void
    ) -> (@Sendable () -> Void)? {
        let id = ObjectIdentifier(loop)
        let (refusal, number, begins) = state.withLock { state -> (Outcome?, UInt64, Bool) in
            guard !state.hasEnded else { return (.ended, 0, false) }
            let refusal = state.withCrowd(of: comer) { place(for: comer, in: &$0) }
            if let refusal { return (.refused(refusal), 0, false) }
            state.latest += 1
            state.lines[id, default: Line()].waiting.append(state.latest, .init(comer: comer, resume: body))
            return (nil, state.latest, state.lines[id]?.begins() == true)
        }
        if let refusal {
            if case .refused(let reason) = refusal { onRefusal(reason) }
            body(refusal)
            return nil
        }
        if begins { loop.execute { self.move(loop) } }
        return { self.leave(id, number, comer) }
    }

    /// Calls `body` on `loop` when it is its turn, before all who come.
    func leave(on loop: any EventLoop, _ body: @escaping @Sendable () -> Void) {
        let id = ObjectIdentifier(loop)
        let begins = state.withLock { state in
            state.lines[id, default: Line()].waiting.append(leaving: body)
            return state.lines[id]?.begins() == true
        }
        if begins { loop.execute { self.move(loop) } }
    }

    /// Lets nobody in any more: all who wait are told so at once.
    func finish() {
        let waiters = state.withLock { state in
            state.hasEnded = true
            (state.known, state.others) = (Crowd(), Crowd())
            return state.lines.keys.flatMap { state.lines[$0]?.waiting.takeComers() ?? [] }
        }
        for waiter in waiters { waiter.resume(.ended) }
    }

    private func place(for comer: WaitingLine.Comer, in crowd: inout Crowd) -> Refusal? {
        guard crowd.count < capacity else { return .overload }
        if let network = comer.network {
            let count = crowd.countOfNetwork[network, default: 0]
            guard count < addressCapacity else { return .addressRate }
            crowd.countOfNetwork[network] = count + 1
        }
        crowd.count += 1
        return nil
    }

    private func leave(_ line: ObjectIdentifier, _ number: UInt64, _ comer: WaitingLine.Comer) {
        let waiter = state.withLock { state -> WaitingLine.Waiter? in
            guard let waiter = state.lines[line]?.waiting.remove(number, comer) else { return nil }
            state.withCrowd(of: comer) { $0.forget(comer.network) }
            return waiter
        }
        waiter?.resume(.gone)
    }

    private func move(_ loop: any EventLoop) {
        let (id, now) = (ObjectIdentifier(loop), NIODeadline.now())
        let (leaving, coming, due) = state.withLock { state in
            let (leaving, coming) = state.lines[id]?.waiting.takeNext(Self.batchCount) ?? ([], [])
            for waiter in coming { state.withCrowd(of: waiter.comer) { $0.forget(waiter.comer.network) } }
            state.lines[id]?.schedule(at: now)
            let due = state.lines[id]?.due ?? now
            // One that has no more to do is forgotten.
            if leaving.isEmpty, coming.isEmpty { state.lines[id] = nil }
            return (leaving, coming, due)
        }
        guard !leaving.isEmpty || !coming.isEmpty else { return }
        for body in leaving { body() }
        for waiter in coming { waiter.resume(.admitted) }
        loop.scheduleTask(deadline: due) { self.move(loop) }
    }
}
