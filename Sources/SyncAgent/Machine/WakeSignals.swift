import Dispatch
package import SyncCore
import Synchronization

#if os(Linux)
import CLinux
import Glibc
#endif

/// Yields when the network may have come back, and after the machine was suspended or its clock was set.
///
/// It yields at most once in ``shortestPause``, since a change of networks consists of many messages, and once more
/// after the last of them. On systems other than Linux it never yields; the polling interval applies.
package final class WakeSignals: Sendable {
    private let hub = SignalHub()
    /// Holds one message that arrives during a pause.
    private let messages: AsyncStream<Void>
    private let message: AsyncStream<Void>.Continuation
    /// Cancels the sources of messages.
    private let cancellations = Mutex<[@Sendable () -> Void]>([])
    private static let shortestPause = Duration.seconds(5)

    package init() {
        (messages, message) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        #if os(Linux)
        watchNetwork()
        watchClock()
        #endif
    }

    deinit {
        for cancel in cancellations.withLock({ $0 }) { cancel() }
    }

    /// A stream that yields with each signal from now on.
    package func subscribe() -> AsyncStream<Void> { hub.subscribe() }

    /// Passes messages on as signals until the task is cancelled. Only one task may do so.
    package func run(_ host: HostServices) async {
        for await _ in messages {
            hub.signal()
            do { try await host.sleep(for: Self.shortestPause) } catch { return }
        }
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
            var isNews = false
            while true {
                let count = recv(descriptor, &buffer, buffer.count, 0)
                guard count > 0 else { break }
                isNews = isNews || Self.announcesNetwork(buffer[..<count])
            }
            if isNews { self?.message.yield() }
        }
    }

    /// Returns `true` if one of the messages announces a link, an address or a route.
    private static func announcesNetwork(_ messages: ArraySlice<UInt8>) -> Bool {
        var rest = messages
        while rest.count >= MemoryLayout<nlmsghdr>.size {
            let header = rest.withUnsafeBytes { $0.loadUnaligned(as: nlmsghdr.self) }
            // RTM_NEWLINK, RTM_NEWADDR and RTM_NEWROUTE, which linux/rtnetlink.h has in an enumeration.
            if [UInt16(16), 20, 24].contains(header.nlmsg_type) { return true }
            // Messages are aligned to four bytes.
            let length = (Int(header.nlmsg_len) + 3) & ~3
            guard length >= MemoryLayout<nlmsghdr>.size else { return false }
            rest = rest.dropFirst(length)
        }
        return false
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
            self?.message.yield()
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
