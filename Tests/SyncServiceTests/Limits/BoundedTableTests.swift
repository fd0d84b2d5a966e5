import SyncCoreTesting
import TestSupport
import Testing

@testable import SyncService

@Suite("Tables of rates")
struct BoundedTableTests {
    private static let start: Int64 = 1_800_000_000_000_000

    @Test("A rate allows its burst at once, then a number per second, and never more than its burst again")
    func bucket() {
        var entry = RateUse()
        let rate = Rate(perSecond: 4, burst: 10)
        let now = Self.start
        for _ in 0..<10 { #expect(entry.take(1, of: rate, lane: 0, now: now) == nil) }
        #expect(entry.take(1, of: rate, lane: 0, now: now) == 250_000)
        #expect(entry.take(1, of: rate, lane: 0, now: now + 249_999) == 1)
        #expect(entry.take(1, of: rate, lane: 0, now: now + 250_000) == nil)
        #expect(entry.take(3, of: rate, lane: 0, now: now + 250_000) == 750_000)
        // Another rate of the same holder is independent.
        #expect(entry.take(1, of: rate, lane: 1, now: now) == nil)
        let later = now + 3_600_000_000
        for _ in 0..<10 { #expect(entry.take(1, of: rate, lane: 0, now: later) == nil) }
        #expect(entry.take(1, of: rate, lane: 0, now: later) == 250_000)
        // More than the burst at once costs the burst.
        #expect(entry.take(1_000, of: rate, lane: 0, now: later + 3_600_000_000) == nil)
    }

    @Test("A clock that was set back blocks no client")
    func clock() {
        var entry = RateUse()
        let rate = Rate(perSecond: 1, burst: 2)
        for _ in 0..<2 { #expect(entry.take(1, of: rate, lane: 0, now: Self.start) == nil) }
        #expect(entry.take(1, of: rate, lane: 0, now: Self.start - 86_400_000_000) == nil)
    }

    @Test("A million addresses fit into the fixed table, and replace the holders that recover first")
    func capacity() {
        var table = BoundedTable<RateUse>(capacity: 1_024)
        let rate = Rate(perSecond: 1, burst: 5)
        for number in 0..<1_000_000 {
            let id = HolderID.of(ClientAddress(high: UInt64(number) << 20, low: 0))
            _ = table.update(id) { $0.take(1, of: rate, lane: 0, now: Self.start + Int64(number)) }
        }
        #expect(table.count <= 1_024)

        // A holder that has used up its burst stays in the table while newcomers replace each other.
        var small = BoundedTable<RateUse>(capacity: 8)
        for _ in 0..<5 { _ = small.update(99) { $0.take(1, of: rate, lane: 0, now: Self.start) } }
        for number in 1...80 where number != 99 {
            _ = small.update(UInt64(number)) { $0.take(1, of: rate, lane: 0, now: Self.start) }
        }
        let wait = small.update(99) { $0.take(1, of: rate, lane: 0, now: Self.start) }
        #expect(wait == .some(1_000_000))
    }

    @Test("An account can have its share of running requests, however many other accounts have")
    func slots() throws {
        var limits = CallerLimits()
        (limits.accountReads, limits.accountRequests) = (nil, 2)
        let limiter = RequestLimiter(limits, capacity: 8)
        func enter(_ name: String) throws -> Budget.Ticket {
            try limiter.enter(account: name, isRead: true, byteCount: 0, now: Self.start)
        }
        for number in 0..<100 { _ = try enter("\(number)") }
        let second = try enter("7")
        #expect(throws: RequestError.self) { try enter("7") }
        second.give()
        _ = try enter("7")
        #expect(limiter.requests.holderCount == 100)
    }

    @Test("Addresses are spread evenly, also those that differ in one part only")
    func spread() {
        var slots = [Int](repeating: 0, count: 256)
        for number in 0..<65_536 {
            let id = HolderID.of(ClientAddress(high: 0x2001_0DB8_0000_0000 | UInt64(number), low: 0))
            slots[Int(id & 255)] += 1
        }
        // The expectation is 256 each. A difference of ten standard deviations does not happen by chance.
        #expect(slots.allSatisfy { (96...416).contains($0) }, "\(slots)")
    }
}

@Suite("Client addresses")
struct ClientAddressTests {
    @Test(
        "An address has one value, however it is written",
        arguments: [
            ("192.0.2.1", UInt64(0), UInt64(0xFFFF_C000_0201)), ("::ffff:192.0.2.1", 0, 0xFFFF_C000_0201),
            ("::1", 0, 1), ("::", 0, 0), ("1::", 0x1_0000_0000_0000, 0),
            ("2001:db8::a:b", 0x2001_0DB8_0000_0000, 0x000A_000B),
            ("2001:DB8:0:0:0:0:a:b", 0x2001_0DB8_0000_0000, 0xA_000B),
            ("fe80::1%eth0", 0xFE80_0000_0000_0000, 1), ("1:2:3:4:5:6:7::", 0x1_0002_0003_0004, 0x5_0006_0007_0000),
        ])
    func texts(_ text: String, high: UInt64, low: UInt64) {
        #expect(ClientAddress(text) == ClientAddress(high: high, low: low))
    }

    @Test(
        "A malformed address is rejected",
        arguments: [
            "", ".", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "1.2.3.4 ", "+1.2.3.4", "1..2.3", ":", ":::",
            "1::2::3",
            "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8::", "12345::", "g::", "::1.2.3", "1.2.3.4::",
            "[::1]", "unknown",
            "1:", ":1", "1.2.3.4:80", "::٣",
        ])
    func wrong(_ text: String) {
        #expect(ClientAddress(text) == nil)
    }

    @Test("IPv6 counts by /64 and IPv4 by address; loopback addresses of both are recognized")
    func networks() throws {
        let address = try #require(ClientAddress("2001:db8:1:2:3:4:5:6"))
        #expect(address.network == ClientAddress("2001:db8:1:2::"))
        #expect(ClientAddress("192.0.2.1")?.network == ClientAddress("192.0.2.1"))
        for text in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            #expect(ClientAddress(text)?.isLoopback == true, "\(text)")
        }
        for text in ["128.0.0.1", "::2", "10.0.0.1", "7f00::1"] {
            #expect(ClientAddress(text)?.isLoopback == false, "\(text)")
        }
        #expect(ClientAddress("10.1.2.3")?.prefix(96 + 8) == ClientAddress("10.0.0.0"))
        #expect(address.prefix(32) == ClientAddress("2001:db8::"))
        #expect(address.prefix(0) == ClientAddress("::") && address.prefix(128) == address)
    }
}
