import NIOCore
import Synchronization

/// Lets in a few at a time of what comes in thousands and is in no hurry: streams that open all at once after a
/// restart, and what is to be tidied up behind those that end all at once. A line for each event loop, in the order in
/// which they came.
///
/// An event loop does all that is ready before it looks again for what has come. Without this a request that needs it
/// several times waits behind thousands of streams each time.
final class Turnstile: Sendable {
    /// How many are let in at a time.
    static let batchCount = 8
    /// When the next come, at the earliest and at the latest.
    private static let pauses = TimeAmount.milliseconds(1)...TimeAmount.milliseconds(20)

    private struct Line {
        var waiting = CircularBuffer<@Sendable () -> Void>()
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
    }

    private let lines = Mutex<[ObjectIdentifier: Line]>([:])
    private let capacity: Int
    private let onRefusal: @Sendable () -> Void

    /// - Parameters:
    ///   - capacity: how many wait in a line, at most.
    ///   - onRefusal: is told of each that finds it full.
    init(capacity: Int, onRefusal: @escaping @Sendable () -> Void = {}) {
        (self.capacity, self.onRefusal) = (capacity, onRefusal)
    }

    /// Waits for a turn on `loop`; `false`, at once, where the line is full.
    func wait(on loop: any EventLoop) async -> Bool {
        await withCheckedContinuation { continuation in
            let isAdmitted = enter(on: loop) { continuation.resume(returning: true) }
            if !isAdmitted { continuation.resume(returning: false) }
        }
    }

    /// Calls `body` on `loop` when it is its turn, at the earliest after what the loop is at; `false` where the line is
    /// full, and `isBounded`.
    @discardableResult
    func enter(on loop: any EventLoop, isBounded: Bool = true, _ body: @escaping @Sendable () -> Void) -> Bool {
        let (isAdmitted, begins) = lines.withLock { lines in
            var line = lines.removeValue(forKey: ObjectIdentifier(loop)) ?? Line()
            defer { lines[ObjectIdentifier(loop)] = line }
            guard !isBounded || line.waiting.count < capacity else { return (false, false) }
            line.waiting.append(body)
            if !line.isMoving { line.due = NIODeadline.now() }
            defer { line.isMoving = true }
            return (true, !line.isMoving)
        }
        if !isAdmitted { onRefusal() }
        if begins { loop.execute { self.move(loop) } }
        return isAdmitted
    }

    private func move(_ loop: any EventLoop) {
        let now = NIODeadline.now()
        let (admitted, due) = lines.withLock { lines -> ([@Sendable () -> Void], NIODeadline) in
            guard var line = lines.removeValue(forKey: ObjectIdentifier(loop)) else { return ([], now) }
            let admitted = Array(line.waiting.prefix(Self.batchCount))
            line.waiting.removeFirst(admitted.count)
            line.schedule(at: now)
            // One that has no more to do is forgotten.
            if !admitted.isEmpty { lines[ObjectIdentifier(loop)] = line }
            return (admitted, line.due)
        }
        guard !admitted.isEmpty else { return }
        for body in admitted { body() }
        loop.scheduleTask(deadline: due) { self.move(loop) }
    }
}
