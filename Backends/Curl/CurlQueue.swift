import CCurl
import Synchronization

/// Queues commands for the thread of a client and decides which single thread drives libcurl.
final class CurlQueue: Sendable {
    enum Command: Sendable {
        case start(UInt64, CurlJob)
        case cancel(UInt64)
        /// The reader has emptied the buffer of a stream, which resumes.
        case resume(UInt64)
    }

    private enum Driver {
        /// There are no exchanges. The client's thread waits at the gate.
        case idle
        case thread
        /// A caller's thread drives its single exchange. The client's thread waits at the gate.
        case caller
    }

    private struct State {
        var commands: [Command] = []
        var nextID: UInt64 = 0
        var isClosed = false
        var driver = Driver.thread
        /// True if the driver waits in libcurl or is about to.
        var isResting = false
    }

    private let state = Mutex(State())
    /// Only woken from here, which libcurl allows from any thread. The lock ensures that it still exists.
    private nonisolated(unsafe) let multi: UnsafeMutableRawPointer
    /// The gate at which the client's thread waits while it does not drive. Thread-safe, and freed with the queue.
    private nonisolated(unsafe) let gate: UnsafeMutablePointer<ccurl_gate>

    init(multi: UnsafeMutableRawPointer) {
        self.multi = multi
        gate = .allocate(capacity: 1)
        ccurl_gate_init(gate)
    }

    deinit {
        ccurl_gate_destroy(gate)
        gate.deallocate()
    }

    func makeID() -> UInt64 {
        state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
    }

    func add(_ command: Command) {
        state.withLock { state in
            state.commands.append(command)
            wake(&state)
        }
    }

    /// Ends the thread and all exchanges.
    func close() {
        state.withLock { state in
            state.isClosed = true
            wake(&state)
        }
    }

    /// Returns the commands since the last call, or `nil` when the queue is closed. Called by the client's thread.
    ///
    /// - Parameter isBusy: true if there are exchanges. Otherwise the call waits for a command.
    func take(isBusy: Bool) -> [Command]? {
        let goesOn = state.withLock { state in
            state.isResting = false
            if isBusy || !state.commands.isEmpty || state.isClosed { return true }
            state.driver = .idle
            return false
        }
        // The thread is the driver once the gate opens.
        if !goesOn { ccurl_gate_wait(gate) }
        return state.withLock { state in
            guard !state.isClosed else { return nil }
            defer { state.commands.removeAll(keepingCapacity: true) }
            return state.commands
        }
    }

    /// Makes the caller's thread the driver if there are no exchanges.
    ///
    /// - Returns: true on success. The caller must then call ``endLeading(isBusy:)``.
    func beginLeading() -> Bool {
        state.withLock { state in
            guard state.driver == .idle, !state.isClosed else { return false }
            state.driver = .caller
            return true
        }
    }

    /// Ends the role of the caller's thread as driver.
    ///
    /// - Parameter isBusy: true if there are exchanges, which the client's thread continues.
    func endLeading(isBusy: Bool) {
        state.withLock { state in
            state.isResting = false
            if isBusy || !state.commands.isEmpty || state.isClosed {
                handOver(&state)
            } else {
                state.driver = .idle
            }
        }
    }

    /// Marks the driver as resting, so that further commands wake it.
    ///
    /// - Returns: false if commands arrived in the meantime.
    func rest() -> Bool {
        state.withLock { state in
            state.isResting = state.commands.isEmpty && !state.isClosed
            return state.isResting
        }
    }

    private func wake(_ state: inout State) {
        switch state.driver {
        case .idle: handOver(&state)
        case .thread, .caller:
            guard state.isResting else { return }
            state.isResting = false
            curl_multi_wakeup(multi)
        }
    }
    private func handOver(_ state: inout State) {
        state.driver = .thread
        ccurl_gate_open(gate)
    }
}
