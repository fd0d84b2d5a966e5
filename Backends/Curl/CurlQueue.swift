import CCurl
import Synchronization

/// What tasks ask of the thread of a client, and who drives libcurl: one thread at a time.
final class CurlQueue: Sendable {
    enum Command: Sendable {
        case start(UInt64, CurlJob)
        case cancel(UInt64)
        /// Somebody has taken what a stream had; it may go on.
        case resume(UInt64)
    }

    private enum Driver {
        /// Nothing is under way; the client's thread waits at the gate.
        case nobody
        case thread
        /// A caller's thread, with its exchange alone; the client's thread waits at the gate.
        case caller
    }

    private struct State {
        var commands: [Command] = []
        var nextID: UInt64 = 0
        var isClosed = false
        var driver = Driver.thread
        /// Whether the driver waits for libcurl, or is about to.
        var isResting = false
    }

    private let state = Mutex(State())
    /// Only woken from here: the one call that libcurl allows beside others. Under the lock, so that it is not gone.
    private nonisolated(unsafe) let multi: UnsafeMutableRawPointer
    /// Where the client's thread waits while it does not drive. Safe to use from all threads; freed with the queue.
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

    /// Ends the thread, and with it what is still under way.
    func close() {
        state.withLock { state in
            state.isClosed = true
            wake(&state)
        }
    }

    /// For the client's thread: what has been asked for since the last time; `nil` when nobody will ask any more.
    ///
    /// - Parameter isBusy: whether something is under way. If not, it waits until there is something to do.
    func take(isBusy: Bool) -> [Command]? {
        let goesOn = state.withLock { state in
            state.isResting = false
            if isBusy || !state.commands.isEmpty || state.isClosed { return true }
            state.driver = .nobody
            return false
        }
        // Whoever opens it has made the thread the driver.
        if !goesOn { ccurl_gate_wait(gate) }
        return state.withLock { state in
            guard !state.isClosed else { return nil }
            defer { state.commands.removeAll(keepingCapacity: true) }
            return state.commands
        }
    }

    /// Makes a caller's thread the driver where nothing is under way; whether that was so. Then it has to end it.
    func beginLeading() -> Bool {
        state.withLock { state in
            guard state.driver == .nobody, !state.isClosed else { return false }
            state.driver = .caller
            return true
        }
    }

    /// The caller's thread drives no more.
    ///
    /// - Parameter isBusy: whether something is under way, for the client's thread to go on with.
    func endLeading(isBusy: Bool) {
        state.withLock { state in
            state.isResting = false
            if isBusy || !state.commands.isEmpty || state.isClosed {
                handOver(&state)
            } else {
                state.driver = .nobody
            }
        }
    }

    /// Whether nothing was asked for since; whoever asks from now on wakes the driver.
    func rest() -> Bool {
        state.withLock { state in
            state.isResting = state.commands.isEmpty && !state.isClosed
            return state.isResting
        }
    }

    private func wake(_ state: inout State) {
        switch state.driver {
        case .nobody: handOver(&state)
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
