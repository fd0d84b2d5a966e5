import Dispatch
import Synchronization

#if os(Linux)
import CLinux
import Glibc
#endif

/// Yields when the network may have come back, and after the machine was suspended or its clock was set.
///
/// At most one signal in ``shortestPause``, since a change of networks consists of many messages. On systems other than
/// Linux it never yields; the polling interval applies.
package final class WakeSignals: Sendable {
    package let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation
    private let last = Mutex<ContinuousClock.Instant?>(nil)
    /// Cancels the sources of events.
    private let cancellations = Mutex<[@Sendable () -> Void]>([])
    private static let shortestPause = Duration.seconds(5)

    package init() {
        (stream, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        #if os(Linux)
        watchNetwork()
        watchClock()
        #endif
    }

    deinit {
        for cancel in cancellations.withLock({ $0 }) { cancel() }
        continuation.finish()
    }

    private func signal() {
        let now = ContinuousClock.now
        let isDue = last.withLock { last in
            if let last, now - last < Self.shortestPause { return false }
            last = now
            return true
        }
        if isDue { continuation.yield() }
    }

    #if os(Linux)
    /// Subscribes to the kernel's messages about links, addresses and routes (rtnetlink(7)).
    private func watchNetwork() {
        let descriptor = socket(AF_NETLINK, Int32(SOCK_RAW.rawValue) | Self.socketFlags, NETLINK_ROUTE)
        guard descriptor >= 0 else { return }
        var address = sockaddr_nl()
        address.nl_family = sa_family_t(AF_NETLINK)
        address.nl_groups = UInt32(
            RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE)
        let isBound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_nl>.size)) == 0
            }
        }
        guard isBound else {
            close(descriptor)
            return
        }
        watch(descriptor) { [weak self] in
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while recv(descriptor, &buffer, buffer.count, 0) > 0 {}
            self?.signal()
        }
    }

    /// Starts a timer for the distant future, which the kernel cancels when the clock is set, also after a suspension
    /// (timerfd_create(2), `TFD_TIMER_CANCEL_ON_SET`).
    private func watchClock() {
        let descriptor = timerfd_create(CLOCK_REALTIME, Int32(TFD_CLOEXEC) | Int32(TFD_NONBLOCK))
        guard descriptor >= 0 else { return }
        guard Self.arm(descriptor) else {
            close(descriptor)
            return
        }
        watch(descriptor) { [weak self] in
            var expirations: UInt64 = 0
            guard read(descriptor, &expirations, 8) < 0, errno == ECANCELED else { return }
            _ = Self.arm(descriptor)
            self?.signal()
        }
    }

    private static func arm(_ descriptor: Int32) -> Bool {
        var time = itimerspec()
        // In the year 2514, within the range of file systems and 64-bit clocks.
        time.it_value.tv_sec = 17_179_869_184
        return timerfd_settime(descriptor, 3, &time, nil) == 0
    }

    private static let socketFlags = Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)

    private func watch(_ descriptor: Int32, _ handler: @escaping @Sendable () -> Void) {
        // Dispatch sources may be used from any thread, although their protocols are not declared as sendable.
        nonisolated(unsafe) let source = DispatchSource.makeReadSource(
            fileDescriptor: descriptor, queue: .global(qos: .utility))
        source.setEventHandler(handler: handler)
        source.setCancelHandler { close(descriptor) }
        source.activate()
        cancellations.withLock { $0.append { source.cancel() } }
    }
    #endif
}
