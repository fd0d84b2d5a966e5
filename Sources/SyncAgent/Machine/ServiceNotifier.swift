import Foundation

/// Reports the state of the process to the service manager (sd_notify(3)). Without `NOTIFY_SOCKET` it does nothing.
package struct ServiceNotifier: Sendable {
    private let path: String?
    /// Half of the watchdog's timeout, after which the manager restarts the process; `nil` without a watchdog.
    package let watchdogInterval: Duration?

    /// - Parameter environment: The environment variables of the process.
    package init(environment: [String: String], processID: Int32) {
        path = environment["NOTIFY_SOCKET"].flatMap { $0.hasPrefix("/") || $0.hasPrefix("@") ? $0 : nil }
        let isForThisProcess = environment["WATCHDOG_PID"].map { $0 == String(processID) } ?? true
        watchdogInterval = environment["WATCHDOG_USEC"].flatMap { Int64($0) }.flatMap { microseconds in
            microseconds > 0 && isForThisProcess ? .microseconds(microseconds / 2) : nil
        }
    }

    /// The process serves, or has reloaded its configuration.
    package func ready() { send("READY=1") }

    /// One line about the state, for people.
    package func status(_ text: String) {
        send("STATUS=" + text.split(whereSeparator: \.isNewline).joined(separator: " "))
    }

    /// The process reloads its configuration; ``ready()`` ends it.
    package func reloading() {
        // The clock that systemd compares with its own: CLOCK_MONOTONIC on Linux.
        let clock = SuspendingClock()
        let now = clock.systemEpoch.duration(to: clock.now)
        send("RELOADING=1\nMONOTONIC_USEC=\(Int64(now / .microseconds(1)))")
    }

    /// The process ends.
    package func stopping() { send("STOPPING=1") }

    /// Reports to the watchdog that the process works, until the task is cancelled.
    package func reportLife() async {
        guard let watchdogInterval else {
            // Without a watchdog there is nothing to report.
            for await _ in AsyncStream<Void>.makeStream().stream {}
            return
        }
        while true {
            send("WATCHDOG=1")
            do { try await ContinuousClock().sleep(for: watchdogInterval) } catch { return }
        }
    }

    private func send(_ message: String) {
        guard let path else { return }
        let descriptor = SocketPath.open(isStream: false)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        // A manager that has gone away does not matter.
        _ = SocketPath.withAddress(path) { address, length in
            message.withCString { sendto(descriptor, $0, message.utf8.count, 0, address, length) }
        }
    }
}
