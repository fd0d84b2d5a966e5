import Testing

@testable import SyncService

@Suite("Budgets")
struct BudgetTests {
    private func address(_ text: String) throws -> ClientAddress { try #require(ClientAddress(text)) }

    @Test("An amount is refused beyond the total, the share of an address or that of an account, and nothing is taken")
    func limits() throws {
        let budget = Budget(.init(total: 10, address: 6, account: 4))
        let (first, second) = (try address("192.0.2.1"), try address("192.0.2.2"))
        _ = try budget.take(4, address: first, account: "alice")
        #expect(throws: Budget.Shortage.account) { try budget.take(address: second, account: "alice") }
        #expect(throws: Budget.Shortage.address) { try budget.take(3, address: first, account: "bob") }
        _ = try budget.take(2, address: first, account: "bob")
        #expect(throws: Budget.Shortage.total) { try budget.take(5, address: second) }
        #expect(budget.taken == 6)
        _ = try budget.take(4, address: second)
        #expect(throws: Budget.Shortage.total) { try budget.take() }
    }

    @Test("An amount that was given back can be taken again, and its holders are forgotten")
    func giving() throws {
        let budget = Budget(.init(total: 3, address: 2, account: 2))
        for _ in 0..<1_000 {
            let tickets = try (0..<2).map { _ in try budget.take(address: address("192.0.2.1"), account: "alice") }
            for ticket in tickets { ticket.give() }
        }
        #expect(budget.taken == 0)
        #expect(budget.holderCount == 0)
    }

    @Test("An IPv6 address counts with its /64, and a loopback address has no share")
    func networks() throws {
        let budget = Budget(.init(total: 100, address: 1))
        _ = try budget.take(address: address("2001:db8::1"))
        #expect(throws: Budget.Shortage.address) { try budget.take(address: address("2001:db8::2")) }
        _ = try budget.take(address: address("2001:db8:0:1::1"))
        for _ in 0..<10 { _ = try budget.take(address: address("127.0.0.1")) }
        for _ in 0..<10 { _ = try budget.take(address: nil) }
    }

    @Test("A holder of nothing can take one amount of any size, and a forced amount always succeeds")
    func large() throws {
        let budget = Budget(.init(total: 10, address: 4, account: 4))
        let large = try budget.take(50, address: address("192.0.2.1"), account: "alice")
        #expect(throws: Budget.Shortage.total) { try budget.take(address: address("192.0.2.2")) }
        let forced = budget.force(5)
        large.give()
        _ = try budget.take(5, address: address("192.0.2.2"))
        forced.give()
        #expect(budget.taken == 5)
    }
}
