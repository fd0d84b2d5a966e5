#if PostgreSQL
import Foundation
import TestSupport

/// A relay to a port of this machine that a test can cut. While it is cut, bytes wait and no connection is closed, as
/// behind a broken network.
final class CuttableLine: Sendable {
    private final class Gate: @unchecked Sendable {
        private let condition = NSCondition()
        private var isOpen = true

        func set(isOpen: Bool) {
            condition.withLock {
                self.isOpen = isOpen
                condition.broadcast()
            }
        }

        func pass() {
            condition.withLock { while !isOpen { condition.wait() } }
        }
    }

    private let gate: Gate
    private let server: RawServer

    /// The port on which it listens.
    var port: Int { Int(server.port) }

    init(to port: Int) throws {
        let gate = Gate()
        self.gate = gate
        server = try RawServer { client, _ in
            gate.pass()
            guard let server = RawConnection.connect(to: UInt16(port)) else { return }
            @Sendable func relay(from source: RawConnection, to target: RawConnection) {
                while let bytes = source.read() {
                    gate.pass()
                    guard target.write(bytes) else { break }
                }
                source.shutDown()
                target.shutDown()
            }
            let isOver = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                relay(from: server, to: client)
                isOver.signal()
            }
            relay(from: client, to: server)
            isOver.wait()
            server.close()
        }
    }

    deinit { mend() }

    func cut() { gate.set(isOpen: false) }

    func mend() { gate.set(isOpen: true) }
}
#endif
