import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("Sources of an entitlement by level and by subscription product")
struct LevelSourceTests {
    /// A catalogue of two products in `group` and one of each other kind, with one entitlement.
    private static func catalog(_ source: String, group: String = "selfies", more: String = "") throws(InputError)
        -> Catalog
    {
        try Catalog(
            json: #"""
                {"products":[{"id":"all","type":"autoRenewable","group":"\#(group)","duration":"P1W"},
                   {"id":"one","type":"autoRenewable","group":"\#(group)","duration":"P1W","level":2},
                   {"id":"month","type":"nonRenewing","group":"owls","duration":"P1M"},
                   {"id":"coins","type":"consumable"}\#(more)],
                 "entitlements":[{"id":"e","grantedBy":["\#(source)"]}]}
                """#.utf8)
    }

    private static func source(_ text: String, group: String = "selfies", more: String = "") throws
        -> Entitlement.Source?
    {
        try catalog(text, group: group, more: more)[entitlement: "e"]?.grantedBy.first
    }

    @Test("A number after the last @ is a level, and the text of a source reads back as the same source")
    func reads() throws {
        for (text, group, source) in [
            ("group:selfies@1", "selfies", .level("selfies", 1)), ("group:selfies@2", "selfies", .level("selfies", 2)),
            ("group:selfies@1000", "selfies", .level("selfies", 1_000)),
            ("group:selfies", "selfies", .group("selfies")),
            ("group:a@b@1", "a@b", .level("a@b", 1)), ("group:@@1", "@", .level("@", 1)),
            ("group:\u{301}@@2", "\u{301}@", .level("\u{301}@", 2)),
            ("group:a@\u{301}", "a@\u{301}", .group("a@\u{301}")),
            ("product:one", "selfies", .product("one")),
        ] as [(String, String, Entitlement.Source)] {
            #expect(try Self.source(text, group: group) == source, "\(text)")
            #expect("\(source)" == text)
        }
    }

    @Test("A group whose id is the whole text precedes a level, as in catalogues from before levels")
    func wholeID() throws {
        #expect(try Self.source("group:selfies@1", group: "selfies@1") == .group("selfies@1"))
        let other = #",{"id":"x","type":"autoRenewable","group":"selfies@1","duration":"P1W"}"#
        #expect(try Self.source("group:selfies@1", more: other) == .group("selfies@1"))
        #expect(try Self.source("group:selfies@2", more: other) == .level("selfies", 2))
        #expect(try Self.source("group:selfies@1@1", more: other) == .level("selfies@1", 1))
        // Made in code, such a level would be read back as the group.
        let catalog = try Self.catalog("group:selfies", more: other)
        #expect(
            throws: InputError(
                path: "entitlements[0].grantedBy[0]",
                reason: "\"group:selfies@1\" is the group \"selfies@1\", name the group's products instead")
        ) {
            try Catalog(
                products: catalog.products, entitlements: [Entitlement(id: "e", grantedBy: [.level("selfies", 1)])])
        }
    }

    @Test(
        "A level or product that cannot grant is refused with what to write instead",
        arguments: [
            ("group:selfies@0", "a level must be 1 (highest) to 1,000, not \"0\""),
            ("group:selfies@1001", "a level must be 1 (highest) to 1,000, not \"1001\""),
            ("group:selfies@01", "write \"group:selfies@1\", and .level in code"),
            ("group:selfies@+1", "write \"group:selfies@1\", and .level in code"),
            ("group:selfies@", "a level must be 1 (highest) to 1,000, not \"\""),
            ("group:selfies@one", "a level must be 1 (highest) to 1,000, not \"one\""),
            ("group:selfie@1", "no product is in group \"selfie\""),
            ("group:selfie@x", "no product is in group \"selfie@x\""),
            ("group:owls@1", "group \"owls\" is nonRenewing and has no levels, write \"group:owls\""),
            ("product:month", "\"month\" is nonRenewing, write \"group:owls\""),
            ("product:coins", "\"coins\" is consumable, write \"units:coins\""),
            ("units:one", "\"one\" is autoRenewable, only a consumable has units"),
        ])
    func refused(source: String, reason: String) {
        #expect(throws: InputError(path: "entitlements[0].grantedBy[0]", reason: reason)) {
            try Self.catalog(source)
        }
    }

    @Test("A level above all products of the group is refused, also in a catalogue made in code")
    func unsold() throws {
        let more = #",{"id":"low","type":"autoRenewable","group":"low","duration":"P1W","level":3}"#
        #expect(
            throws: InputError(
                path: "entitlements[0].grantedBy[0]",
                reason: "no product of group \"low\" has level 2 or a higher one, write \"group:low@3\"")
        ) {
            try Self.catalog("group:low@2", more: more)
        }
        #expect(try Self.source("group:low@3", more: more) == .level("low", 3))
        let products = try Self.catalog("group:selfies").products
        for level in [0, 1_001, .min] as [Int64] {
            #expect(
                throws: InputError(
                    path: "entitlements[0].grantedBy[0]",
                    reason: "a level must be 1 (highest) to 1,000, not \(level)")
            ) {
                try Catalog(
                    products: products, entitlements: [Entitlement(id: "e", grantedBy: [.level("selfies", level)])])
            }
        }
    }

    @Test("In random catalogues with @ in the ids, every accepted source reads back from its text")
    func roundTrip() throws {
        var (accepted, levels) = (0, 0)
        let cases = try forAll("sources read back", cases: 5_000) { random, place in
            let ids = ["a", "a@1", "a@1@1", "@1", "a@", "a@02", "b"]
            func group() -> GroupID { GroupID(random.pick(ids)) }
            let products = (0..<3).map { number in
                Product(
                    id: ProductID("p\(number)"),
                    kind: .autoRenewable(
                        group: group(), level: random.int(1...2), duration: CalendarDuration(days: 7),
                        introductory: nil))
            }
            let source = random.pick([.group(group()), .level(group(), random.int(1...2))] as [Entitlement.Source])
            do {
                _ = try Catalog(products: products, entitlements: [Entitlement(id: "e", grantedBy: [source])])
            } catch {
                return
            }
            let json = products.map { product in
                #"{"id":"\#(product.id)","type":"autoRenewable","group":"\#(product.kind.group ?? "")","#
                    + #""duration":"P7D","level":\#(product.kind.level ?? 0)}"#
            }.joined(separator: ",")
            let text = #"{"products":[\#(json)],"entitlements":[{"id":"e","grantedBy":["\#(source)"]}]}"#
            accepted += 1
            if case .level = source { levels += 1 }
            try #require(try Catalog(json: text.utf8)[entitlement: "e"]?.grantedBy == [source], "\(source), \(place)")
        }
        #expect(accepted * 50 >= cases && levels * 100 >= cases, "\(accepted) accepted, \(levels) of them levels")
    }
}
