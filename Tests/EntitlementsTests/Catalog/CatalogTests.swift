import Entitlements
import Testing

@Suite("A catalogue preserves its input")
struct CatalogTests {
    @Test("Every member of every kind of product is read")
    func readsAll() throws {
        let catalog = try Catalog(
            json: #"""
                {"products":[
                  {"id":"z","type":"autoRenewable","group":"g","level":2,"duration":"P1W","forSale":false,
                   "requiresAccount":true,"introductory":{"mode":"payUpFront","duration":"P3D"},
                   "names":{"en":"All","pt-BR":"Tudo"}},
                  {"id":"c","type":"consumable"},
                  {"id":"n","type":"nonRenewing","group":"h","duration":"P1Y"}],
                 "policy":{"bonus":"P1D","expiry":"latestExpiryWins","flags":"purchasedWins","consumables":"shared",
                           "sandboxTime":"accelerated"}}
                """#.utf8)
        let weekly = try #require(catalog[product: "z"])
        #expect(
            weekly
                == Product(
                    id: "z",
                    kind: .autoRenewable(
                        group: "g", level: 2, duration: CalendarDuration(days: 7),
                        introductory: IntroductoryOffer(mode: .payUpFront, duration: CalendarDuration(days: 3))),
                    names: ["en": "All", "pt-BR": "Tudo"], isForSale: false, requiresAccount: true))
        #expect(catalog[product: "c"]?.kind == .consumable(units: 1))
        #expect(catalog.groups == ["g", "h"])
        #expect(catalog.policy.rules.expiry.name == "latestExpiryWins")
        #expect(catalog.policy.rules.consumables == .shared)
        #expect(catalog.policy.sandboxTime == .accelerated)
        #expect(catalog.terms(of: "n")?.bonus == CalendarDuration(days: 1))
        #expect(catalog.terms(of: "c")?.bonus == .zero)
        #expect(catalog.terms(of: "unknown") == nil)
    }

    @Test("A name is in the requested language, or else in English, or else the id")
    func names() {
        let product = Product(id: "owl", kind: .nonConsumable, names: ["en": "Owl", "de": "Eule"])
        #expect(product.name(in: "de") == "Eule")
        #expect(product.name(in: "fr") == "Owl")
        #expect(Product(id: "owl", kind: .nonConsumable).name() == "owl")
    }

    @Test("Products keep the order of the catalogue, and entitlements are sorted by id")
    func order() throws {
        let json = #"""
            {"products":[{"id":"c","type":"nonConsumable"},{"id":"a","type":"consumable"},
                         {"id":"b","type":"nonConsumable"}],
             "entitlements":[{"id":"z","grantedBy":["product:c"]},{"id":"y","grantedBy":["product:b"]}]}
            """#
        let catalog = try Catalog(json: json.utf8)
        #expect(catalog.products.map(\.id) == ["c", "a", "b"])
        #expect(catalog.entitlements.map(\.id) == ["y", "z"])
        #expect(catalog[product: "b"]?.id == "b")
    }

    @Test("Offerings and their products keep the order of the catalogue")
    func offerings() throws {
        let json = #"""
            {"products":[{"id":"c","type":"nonConsumable"},{"id":"a","type":"consumable"}],
             "offerings":[{"id":"z","products":["c","a"]},{"id":"default","products":["a"]}]}
            """#
        let offerings = try Catalog(json: json.utf8).offerings
        #expect(
            offerings == [Offering(id: "z", products: ["c", "a"]), Offering(id: "default", products: ["a"])])
        #expect(try Catalog(json: #"{"products":[],"offerings":[]}"#.utf8).offerings == [])
    }

    @Test("Ids with slashes, colons, emoji, a leading combining mark, and two canonically equal ids live side by side")
    func oddIds() throws {
        let ids = ["a/b/../c", "units:x", "🦉", "\u{301}x", "caf\u{E9}", "cafe\u{301}"]
        let products = ids.map { #"{"id":"\#($0)","type":"nonConsumable"}"# }.joined(separator: ",")
        let entitlements = ids.map { #"{"id":"\#($0)","grantedBy":["product:\#($0)"]}"# }.joined(separator: ",")
        let catalog = try Catalog(json: #"{"products":[\#(products)],"entitlements":[\#(entitlements)]}"#.utf8)
        #expect(catalog.products.map(\.id) == ids.map { ProductID($0) })
        for id in ids {
            #expect(catalog[product: ProductID(id)]?.id == ProductID(id))
            #expect(catalog[entitlement: EntitlementID(id)]?.grantedBy == [.product(ProductID(id))])
        }
    }

    @Test("A null member counts as missing")
    func null() throws {
        let json = #"{"products":[{"id":"a","type":"nonConsumable","group":null,"forSale":null}],"policy":null}"#
        #expect(try Catalog(json: json.utf8)[product: "a"]?.isForSale == true)
    }

    @Test("A bonus beyond 100 years is also rejected in a catalogue built in code")
    func boundsOfHandMadeCatalogues() {
        #expect(throws: InputError(path: "policy.bonus", reason: "a bonus must be at most 100 years")) {
            try Catalog(products: [], policy: Policy(bonus: CalendarDuration(days: .max)))
        }
    }
}
