import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncService
import Testing

@Suite("Written dates at the service")
struct WrittenDateTests {
    @Test("A date that no sum explains is logged once, with the account, the group, the date and the end")
    func conflict() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let (written, kept) = (stage.date(months: 20), stage.date(months: 6))
        #expect(await stage.write(stage.date(months: 6), await stage.signUp("bat")).status == 200)
        for _ in 0..<3 { #expect(await stage.write(written, user).status == 200) }
        #expect(
            stage.conflicts.all == [
                "parse account=\(user.id) group=random: no sum of products explains the date \(written); "
                    + "kept until \(kept)"
            ])
        #expect(await stage.end(of: user) == kept)
    }

    @Test(
        "A sum of two products stands, and a clock that is weeks wrong buys the product; neither is a conflict",
        arguments: [
            // Nine months are three and six.
            (written: (months: 9, days: 0), end: 9), (written: (months: 9, days: 3), end: 9),
            (written: (months: 12, days: 0), end: 12),
            // Three weeks fast and slow.
            (written: (months: 3, days: 21), end: 3), (written: (months: 0, days: 69), end: 3),
            (written: (months: 6, days: 21), end: 6),
        ] as [(written: (months: Int64, days: Int64), end: Int64)])
    func sums(_ written: (months: Int64, days: Int64), _ end: Int64) async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        #expect(await stage.write(stage.date(months: written.months, days: written.days), user).status == 200)
        #expect(await stage.end(of: user) == stage.date(months: end))
        #expect(stage.conflicts.all == [])
    }

    @Test("A sum counts from the end, when an earlier write of the installation never arrived")
    func lostWrite() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        #expect(await stage.write(stage.date(months: 3), user).status == 200)
        let end = stage.date(months: 12)
        stage.clock.advance(seconds: 40 * 86_400)
        // The installation has bought six months, whose write was lost, and three months now.
        #expect(await stage.write(end, user).status == 200)
        #expect(await stage.end(of: user) == end)
        #expect(stage.conflicts.all == [])
    }

    @Test("An end that never comes is shown as 2999-12-31, and that date and later ones mean nothing")
    func forever() async throws {
        let lifetime = Product(id: "lifetime", kind: .nonRenewing(group: "random", duration: .forever))
        let tutorial = try tutorialCatalog()
        let catalog = try Catalog(
            products: tutorial.products + [lifetime], entitlements: tutorial.entitlements, policy: tutorial.policy)
        let stage = try await ParseStage(configure: { $0.catalog = catalog })
        let (owl, bat) = (await stage.signUp("owl"), await stage.signUp("bat", installation: "i2"))
        let gateway = AccountGateway(stage.service)
        let caller = try #require(try await gateway.logIn("owl", password: "pw", peer: "192.0.2.1"))
        let purchase = Purchase(
            transaction: TransactionReference(id: "L"), product: lifetime.id, terms: catalog.terms(of: lifetime.id),
            date: Timestamp(milliseconds: stage.clock.now), stamp: Stamp(logicalTime: LogicalTime(rawValue: 1)))
        try await gateway.record(for: caller) { _, _ in [.purchase(purchase)] }
        let end = "2999-12-31T00:00:00.000Z"
        #expect(await stage.end(of: owl) == end)
        for date in [
            end, "3000-03-31T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "10000-03-31T23:59:59.999Z",
            "+010000-02-29T00:00:00.000Z",
        ] {
            #expect(await stage.write(date, owl).status == 200, "\(date)")
            #expect(await stage.write(date, bat, installation: "i2").status == 200, "\(date)")
        }
        #expect(await stage.end(of: owl) == end)
        #expect(await stage.end(of: bat, installation: "i2") == nil)
        for date in ["10000-13-01T00:00:00.000Z", "+002027-13-01T00:00:00.000Z", "later"] {
            #expect(await stage.write(date, owl).code == 111, "\(date)")
        }
        #expect(stage.conflicts.all == [])
        let ledgers = try await gateway.ledgers(of: caller)
        let facts = Facts(account: ledgers.account, server: ledgers.server)
        #expect(facts.purchases.map(\.product) == ["lifetime"] && facts.assertions.isEmpty)
    }

    /// The keys that were written since `cursor`.
    private func changes(of stage: ParseStage, since cursor: ChangeCursor?) async throws -> [String] {
        let page = try await stage.store.changes(since: cursor, prefix: "", limit: 1_000).outcome
        return page.changes.map(\.key.text)
    }

    @Test("A repeated find, and a save that repeats the last one, write no date and no purchase")
    func repetitions() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        let (first, second) = (stage.date(months: 3), stage.date(months: 9))
        for date in [first, second] { #expect(await stage.write(date, user).status == 200) }
        #expect(await stage.end(of: user) == second)
        var cursor = try await stage.cursor()
        for _ in 0..<3 {
            stage.clock.advance(seconds: 100)
            let find = #"{"where":{"objectId":"\#(user.id)"},"limit":"1","_method":"GET"}"#
            #expect(await stage.ask("POST", "/classes/_User", find, token: user.token).status == 200)
            #expect(await stage.end(of: user) == second)
        }
        #expect(try await changes(of: stage, since: cursor) == [])
        // At the same time nothing changes; later the user's updatedAt does.
        #expect(await stage.write(second, user).status == 200)
        cursor = try await stage.cursor()
        #expect(await stage.write(second, user).status == 200)
        #expect(try await changes(of: stage, since: cursor) == [])
        stage.clock.advance(seconds: 100)
        #expect(await stage.write(second, user).status == 200)
        let changes = try await changes(of: stage, since: cursor)
        #expect(changes.count == 1 && changes.first?.hasSuffix("/parse/user") == true, "\(changes)")
        #expect(await stage.end(of: user) == second)
    }

    @Test("The 33rd installation of an account replaces the one that was seen least recently, and the end stays right")
    func eviction() async throws {
        let stage = try await ParseStage()
        let user = await stage.signUp()
        func dates() async throws -> Set<String> {
            let items = try await stage.store.list(prefix: "", after: nil, limit: 1_000).outcome.items
            return Set(items.map(\.key.text).filter { $0.contains("/parse/dates/") })
        }
        let base = try Timestamp(stage.date(months: 3))
        #expect(await stage.write("\(base)", user, installation: "i0").status == 200)
        let first = try await dates()
        #expect(first.count == 1)
        for number in 1...31 {
            stage.clock.advance(seconds: 3_600)
            #expect(await stage.end(of: user, installation: "i\(number)") == "\(base)")
        }
        let full = try await dates()
        #expect(full.count == 32)
        stage.clock.advance(seconds: 10 * 86_400)
        #expect(await stage.end(of: user, installation: "i32") == "\(base)")
        #expect(full.subtracting(try await dates()) == first)
        #expect(try await dates().count == 32)
        // The one that was replaced and the new one buy from the same date, and repeat what they have written.
        let bought = "\(base.adding(CalendarDuration(months: 3)))"
        for installation in ["i32", "i0", "i32", "i0"] {
            #expect(await stage.write(bought, user, installation: installation).status == 200)
        }
        #expect(await stage.write("\(base)", user, installation: "i0").status == 200)
        #expect(await stage.end(of: user) == "\(base.adding(CalendarDuration(months: 6)))")
        #expect(try await dates().count == 32)
    }

    @Test("On a shared phone, the date of one user is the base of another one's purchase, and is no purchase itself")
    func sharedPhone() async throws {
        let stage = try await ParseStage()
        let owl = await stage.signUp("owl", installation: "phone")
        let (base, sum) = (stage.date(months: 6), stage.date(months: 9))
        // The tablet buys, and the phone is served the date.
        #expect(await stage.write(base, owl, installation: "tablet").status == 200)
        #expect(await stage.end(of: owl, installation: "phone") == base)
        // The app keeps the date on the phone and writes it to the next user when it starts.
        let bat = await stage.signUp("bat", installation: "phone")
        #expect(await stage.write(base, bat, installation: "phone").status == 200)
        #expect(await stage.end(of: bat, installation: "phone") == nil)
        // A third user buys three months before the app has written anything.
        let cat = await stage.signUp("cat", installation: "phone")
        #expect(await stage.write(sum, cat, installation: "phone").status == 200)
        #expect(await stage.end(of: cat, installation: "phone") == stage.date(months: 3))
        // On another phone the same dates mean six and nine months.
        for (name, date) in [("emu", base), ("fox", sum)] {
            let user = await stage.signUp(name, installation: "other \(name)")
            #expect(await stage.write(date, user, installation: "other \(name)").status == 200)
            #expect(await stage.end(of: user, installation: "other \(name)") == date)
        }
        #expect(await stage.end(of: owl, installation: "phone") == base)
        #expect(stage.conflicts.all == [])
    }
}
