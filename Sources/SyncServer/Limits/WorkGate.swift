import SyncService
import Synchronization

/// What is under way in all: requests, and bytes of long bodies. Who comes when it is full is sent away at once, so
/// that those who were let in are served in time.
final class WorkGate: Sendable {
    /// How many connections of the machine's own programs are let in beyond the limit.
    static let reserve = 64

    private struct State {
        var requests = 0
        var bytes = 0
        var connections = 0
        /// By network.
        var connectionsOfAddress: [ClientAddress: Int] = [:]
    }

    private let state = Mutex(State())
    private let limits: ListenerConfiguration
    private let onRefusal: @Sendable (Refusal) -> Void

    init(_ limits: ListenerConfiguration, onRefusal: @escaping @Sendable (Refusal) -> Void) {
        (self.limits, self.onRefusal) = (limits, onRefusal)
    }

    /// Takes a place among the requests under way; `false` where there is none.
    func enter() -> Bool {
        let isAdmitted = state.withLock { state in
            guard state.requests < limits.requestCount else { return false }
            state.requests += 1
            return true
        }
        if !isAdmitted { onRefusal(.overload) }
        return isAdmitted
    }

    /// Gives it back.
    func leave() { state.withLock { $0.requests -= 1 } }

    /// Takes room for `count` more bytes of bodies; `false` where there is none.
    func take(_ count: Int) -> Bool {
        let isAdmitted = state.withLock { state in
            guard state.bytes + count <= limits.totalBodyByteCount else { return false }
            state.bytes += count
            return true
        }
        if !isAdmitted { onRefusal(.overload) }
        return isAdmitted
    }

    /// Whether there is room for `count` bytes now.
    func hasRoom(_ count: Int) -> Bool {
        let hasRoom = state.withLock { $0.bytes + count <= limits.totalBodyByteCount }
        if !hasRoom { onRefusal(.overload) }
        return hasRoom
    }

    /// Gives `count` bytes back.
    func give(_ count: Int) { if count > 0 { state.withLock { $0.bytes -= count } } }

    /// Counts a connection of `address`; `false` where it is one too many.
    func connect(_ address: ClientAddress?) -> Bool {
        let counted = Self.counted(address)
        let isAdmitted = state.withLock { state in
            let most = limits.connectionCount + (address?.isLoopback == true ? Self.reserve : 0)
            guard state.connections < most else { return false }
            if let counted {
                let count = state.connectionsOfAddress[counted, default: 0]
                guard count < limits.addressConnectionCount else { return false }
                state.connectionsOfAddress[counted] = count + 1
            }
            state.connections += 1
            return true
        }
        if !isAdmitted { onRefusal(.connections) }
        return isAdmitted
    }

    /// Forgets a connection that was counted.
    func disconnect(_ address: ClientAddress?) {
        let counted = Self.counted(address)
        state.withLock { state in
            state.connections -= 1
            guard let counted, let count = state.connectionsOfAddress[counted] else { return }
            state.connectionsOfAddress[counted] = count > 1 ? count - 1 : nil
        }
    }

    /// Notes a client that was too slow.
    func noteSlow() { onRefusal(.slow) }

    /// Notes somebody who was sent away because there is too much already.
    func noteOverload() { onRefusal(.overload) }

    /// Notes a request that is none.
    func noteMalformed() { onRefusal(.malformed) }

    /// The machine's own programs are the operator's.
    private static func counted(_ address: ClientAddress?) -> ClientAddress? {
        guard let address, !address.isLoopback else { return nil }
        return address.network
    }
}
