import Foundation
import SyncCore
import Synchronization
import UnixSignals

/// The signals that the process has received. It outlives a reload, so that none is lost in between.
package final class ProcessSignals: Sendable {
    private struct State {
        var isEnding = false
        var isReloading = false
    }

    private let state = Mutex(State())
    private let hub = SignalHub()
    private let signals: UnixSignalsSequence

    /// Handles SIGTERM, SIGINT and SIGHUP from now on, and ignores SIGPIPE: a program that does not read its input must
    /// not end the process.
    package init() async {
        signal(SIGPIPE, SIG_IGN)
        signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
    }

    /// Receives signals until the task is cancelled. Only one task may do so.
    package func run() async {
        for await signal in signals {
            state.withLock { state in
                if signal == .sighup { state.isReloading = true } else { state.isEnding = true }
            }
            hub.signal()
        }
    }

    /// True after SIGTERM or SIGINT.
    package var isEnding: Bool { state.withLock { $0.isEnding } }

    /// Returns `true` once after SIGHUP.
    func takeReload() -> Bool {
        state.withLock { state in
            defer { state.isReloading = false }
            return state.isReloading
        }
    }

    /// A stream that yields after each signal from now on.
    func subscribe() -> AsyncStream<Void> { hub.subscribe() }
}
