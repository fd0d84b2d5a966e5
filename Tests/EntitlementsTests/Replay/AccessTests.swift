import Entitlements
import Testing

@Suite("Access is granted by the best source and denied for the first reason that applies")
struct AccessTests {
    private static let now = "2026-06-01"

    private static func access(
        _ story: Story, to entitlement: EntitlementID = Shop.randomOwls, at date: String = now,
        _ context: AccessContext = AccessContext()
    ) throws -> Access? {
        story.replay().access(to: entitlement, at: try Timestamp(date), context: context)
    }

    @Test("Without purchases, access is denied as not purchased")
    func notPurchased() throws {
        #expect(try Self.access(Story()) == .denied(.notPurchased))
    }

    @Test("An unknown entitlement has no access decision")
    func unknown() throws {
        #expect(try Self.access(Story(), to: "unknown") == nil)
    }

    @Test("Access expires at the end of the period, to the millisecond")
    func expired() throws {
        let story = try Story().buying(Shop.oneMonth, at: "2026-01-01", transaction: "A")
        #expect(try Self.access(story) == .denied(.expired(Timestamp("2026-02-01"))))
        #expect(try Self.access(story, at: "2026-02-01") == .denied(.expired(Timestamp("2026-02-01"))))
        #expect(try Self.access(story, at: "2026-01-31T23:59:59.999Z")?.isGranted == true)
    }

    @Test("A denial states the later of expiry and revocation, or the revocation if both are at the same time")
    func revoked() throws {
        let story = try Story().buying(Shop.oneMonth, at: "2026-01-01", transaction: "A")
            .refunding("A", at: "2026-01-10")
        #expect(try Self.access(story) == .denied(.revoked(Timestamp("2026-01-10"))))
        let later = try story.buying(Shop.oneMonth, at: "2026-03-01", transaction: "B")
        #expect(try Self.access(later) == .denied(.expired(Timestamp("2026-04-01"))))
        #expect(
            try Self.access(later.refunding("B", at: "2026-04-01")) == .denied(.revoked(Timestamp("2026-04-01"))))
    }

    @Test("A refund revokes products and units too")
    func revokedProductsAndUnits() throws {
        let owl = try Story().buying(Shop.owl, at: "2026-01-01", transaction: "A").refunding("A", at: "2026-02-01")
        #expect(try Self.access(owl, to: "owl") == .denied(.revoked(Timestamp("2026-02-01"))))
        let coins = try Story().buying(Shop.coins, at: "2026-01-01", transaction: "A").refunding("A", at: "2026-02-01")
        #expect(try Self.access(coins) == .denied(.revoked(Timestamp("2026-02-01"))))
    }

    @Test("After all units are spent, access is denied as used up unless something expired or was revoked")
    func usedUp() throws {
        let spent = try Story().buying(Shop.coins, at: "2026-01-01", transaction: "A")
            .spending(5, id: "s1", at: "2026-01-02")
        #expect(try Self.access(spent) == .denied(.usedUp))
        let neverBought = try Story().spending(5, id: "s1", at: "2026-01-02")
        #expect(try Self.access(neverBought) == .denied(.notPurchased))
        let expired = try spent.buying(Shop.oneMonth, at: "2026-01-02", transaction: "B")
        #expect(try Self.access(expired) == .denied(.expired(Timestamp("2026-02-02"))))
        let refunded = try spent.refunding("A", at: "2026-02-01")
        #expect(try Self.access(refunded) == .denied(.revoked(Timestamp("2026-02-01"))))
    }

    @Test("Until the first restore, a denial asks to restore, even after an expiry")
    func restoreNeeded() throws {
        let context = AccessContext(hasRestored: false)
        #expect(try Self.access(Story(), context) == .denied(.restoreNeeded))
        let expired = try Story().buying(Shop.oneMonth, at: "2026-01-01", transaction: "A")
        #expect(try Self.access(expired, context) == .denied(.restoreNeeded))
        #expect(try Self.access(expired, at: "2026-01-15", context)?.isGranted == true)
    }

    @Test("A denial asks to sign in only if the product requires an account")
    func signInNeeded() throws {
        let catalog = try Catalog(
            products: [
                Product(id: "a", kind: .nonConsumable, requiresAccount: true), Product(id: "b", kind: .nonConsumable),
            ],
            entitlements: [
                Entitlement(id: "a", grantedBy: [.product("a")]), Entitlement(id: "b", grantedBy: [.product("b")]),
            ])
        let story = try Story(catalog)
        let context = AccessContext(isSignedIn: false)
        #expect(try Self.access(story, to: "a", context) == .denied(.signInNeeded))
        #expect(try Self.access(story, to: "b", context) == .denied(.notPurchased))
        #expect(try Self.access(story, to: "a") == .denied(.notPurchased))
        let asked = try story.asking(for: "a", at: "2026-01-01")
        #expect(try Self.access(asked, to: "a", context) == .denied(.pendingApproval))
        let owned = try asked.buying("a", at: "2026-01-02", transaction: "A")
        #expect(try Self.access(owned, to: "a", context)?.isGranted == true)
    }

    @Test("Approval is pending until the request is withdrawn or the purchase arrives")
    func pendingApproval() throws {
        let asked = try Story().asking(for: Shop.oneMonth, at: "2026-01-01")
        #expect(try Self.access(asked) == .denied(.pendingApproval))
        #expect(try asked.replay().snapshot(at: Timestamp(Self.now)).pending == [Shop.oneMonth])
        let withdrawn = try asked.asking(for: Shop.oneMonth, isWithdrawn: true, at: "2026-01-02")
        #expect(try Self.access(withdrawn) == .denied(.notPurchased))
        let bought = try asked.buying(Shop.oneMonth, at: "2026-01-02", transaction: "A")
        #expect(try Self.access(bought) == .denied(.expired(Timestamp("2026-02-02"))))
        let askedAgain = try bought.asking(for: Shop.oneMonth, at: "2026-05-01")
        #expect(try Self.access(askedAgain) == .denied(.pendingApproval))
    }

    @Test("Ownership takes precedence over time, and time over units")
    func precedence() throws {
        let units = try Story().buying(Shop.coins, at: "2026-01-01", transaction: "A")
        #expect(
            try Self.access(units) == .granted(Access.Grant(until: nil, source: .units(Shop.coins), units: 5)))
        let time = try units.buying(Shop.oneMonth, at: "2026-06-01", transaction: "B")
        #expect(
            try Self.access(time)
                == .granted(Access.Grant(until: Timestamp("2026-07-01"), source: .group(Shop.random))))
        let owned = try time.buying(Shop.owl, at: "2026-06-01", transaction: "C")
        #expect(
            try Self.access(owned, to: "owl") == .granted(Access.Grant(until: nil, source: .product(Shop.owl))))
        #expect(
            try Self.access(time, to: "owl")
                == .granted(Access.Grant(until: Timestamp("2026-07-01"), source: .group(Shop.random))))
    }

    @Test("The active group that ends last grants access, regardless of the order in the catalogue")
    func longestGroup() throws {
        func product(_ id: ProductID, _ group: GroupID, _ months: Int64) -> Product {
            Product(id: id, kind: .nonRenewing(group: group, duration: CalendarDuration(months: months)))
        }
        for sources in [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"]] as [[GroupID]] {
            let catalog = try Catalog(
                products: [product("1", "a", 1), product("3", "b", 3), product("2", "c", 2)],
                entitlements: [Entitlement(id: "all", grantedBy: sources.map { .group($0) })])
            let story = try Story(catalog).buying("1", at: "2026-06-01", transaction: "A")
                .buying("2", at: "2026-06-01", transaction: "B").buying("3", at: "2026-06-01", transaction: "C")
            #expect(
                try Self.access(story, to: "all")
                    == .granted(Access.Grant(until: Timestamp("2026-09-01"), source: .group("b"))))
        }
    }

    @Test("A grant lasts until the end of the chain of periods, not of the current period")
    func chain() throws {
        let story = try Story().buying(Shop.oneMonth, at: "2026-05-15", transaction: "A")
            .buying(Shop.oneMonth, at: "2026-05-16", transaction: "B")
        #expect(
            try Self.access(story)
                == .granted(Access.Grant(until: Timestamp("2026-07-15"), source: .group(Shop.random))))
    }

    @Test("An auto-renewing subscription ends at the store's expiry date or, without one, after its duration")
    func autoRenewable() throws {
        let withoutExpiry = try Story().buying(Shop.weekly, at: "2026-06-01", transaction: "A")
        #expect(
            try Self.access(withoutExpiry, to: "selfies")
                == .granted(Access.Grant(until: Timestamp("2026-06-08"), source: .group(Shop.selfies))))
        let withExpiry = try Story().stating(at: "2026-06-01") { date, time in
            .purchase(
                Purchase(
                    transaction: TransactionReference(id: "A"), product: Shop.weekly, terms: nil, date: date,
                    originalID: "0", storeExpiry: date.moved(3_600_000), stamp: Stamp(logicalTime: time)))
        }
        #expect(
            try Self.access(withExpiry, to: "selfies")
                == .granted(Access.Grant(until: Timestamp("2026-06-01T01:00:00Z"), source: .group(Shop.selfies))))
    }
}
