import SyncService
import Synchronization
import Testing

@testable import SyncServer

@Suite("The password queue")
struct PasswordQueueTests {
    private final class Order: Sendable {
        private let names = Mutex<[String]>([])
        var all: [String] { names.withLock { $0 } }
        func append(_ name: String) { names.withLock { $0.append(name) } }
    }

    private func address(_ text: String) throws -> ClientAddress { try #require(ClientAddress(text)?.network) }

    /// Waits until `count` jobs are in the queue.
    private func wait(for count: Int, in queue: PasswordQueue) async throws {
        while queue.waitingCount < count {
            try Task.checkCancellation()
            await Task.yield()
        }
    }

    @Test("Addresses are served in turn, whatever the number of their waiting jobs")
    func turns() async throws {
        let queue = PasswordQueue(slots: 1, length: 64, share: 16)
        let order = Order()
        let (many, few, one) = try (address("192.0.2.1"), address("2001:db8::1"), address("127.0.0.1"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            let first = try await queue.enter(many)
            for (index, (name, address)) in [
                ("many", many), ("many", many), ("many", many), ("many", many), ("few", few), ("few", few),
                ("one", one),
            ].enumerated() {
                group.addTask {
                    let ticket = try await queue.enter(address)
                    order.append(name)
                    queue.leave(ticket)
                }
                try await wait(for: index + 1, in: queue)
            }
            queue.leave(first)
            try await group.waitForAll()
        }
        #expect(order.all == ["many", "few", "one", "many", "few", "many", "many"])
        #expect(queue.waitingCount == 0)
    }

    @Test("An address is limited to its share of the queue; loopback clients are not")
    func shares() async throws {
        let queue = PasswordQueue(slots: 1, length: 64, share: 16)
        let loud = try address("198.51.100.1")
        try await withThrowingTaskGroup(of: Void.self) { group in
            let first = try await queue.enter(loud)
            func add(_ address: ClientAddress, _ count: Int) async throws {
                for _ in 0..<count {
                    let before = queue.waitingCount
                    group.addTask { queue.leave(try await queue.enter(address)) }
                    try await wait(for: before + 1, in: queue)
                }
            }
            try await add(loud, 15)
            await #expect(throws: Budget.Shortage.address) { try await queue.enter(loud) }
            try await add(try address("198.51.100.2"), 1)
            try await add(try address("127.0.0.1"), 48)
            await #expect(throws: Budget.Shortage.total) { try await queue.enter(try address("198.51.100.3")) }
            queue.leave(first)
            try await group.waitForAll()
        }
        queue.leave(try await queue.enter(loud))
    }

    @Test("Passwords beyond the share of an address are refused, and another address is served")
    func hashing() async throws {
        let passwords = PasswordHashing(cost: .init(logarithm: 12), threadCount: 1, queueLength: 8)
        let served = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<32 {
                group.addTask { (try? await passwords.hash([UInt8(number)], peer: "198.51.100.1")) != nil }
            }
            group.addTask { (try? await passwords.hash([1], peer: "198.51.100.2")) != nil }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(served >= 3 && served < 32)
    }
}
