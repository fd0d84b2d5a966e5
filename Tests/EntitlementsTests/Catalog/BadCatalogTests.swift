import Entitlements
import Testing

@Suite("An invalid catalogue is rejected with the place and the reason")
struct BadCatalogTests {
    private static func refusal(of json: String) -> InputError? {
        refusal(of: Array(json.utf8))
    }

    private static func refusal(of json: [UInt8]) -> InputError? {
        do {
            _ = try Catalog(json: json)
            return nil
        } catch {
            return error
        }
    }

    private static func product(_ members: String) -> String { #"{"products":[{"id":"a",\#(members)}]}"# }

    @Test(
        "Invalid offerings are rejected",
        arguments: [
            (#"{"products":["a"]}"#, "offerings[0].id", "this is missing"),
            (#"{"id":"","products":["a"]}"#, "offerings[0].id", "an id must not be empty"),
            (#"{"id":"x"}"#, "offerings[0].products", "this is missing"),
            (
                #"{"id":"x","products":[]}"#, "offerings[0].products",
                "\"x\" has no products: name some, or remove the offering"
            ),
            (
                #"{"id":"x","products":["a","b"]}"#, "offerings[0].products[1]",
                "no product has the id \"b\": add it to products, or remove it here"
            ),
            (#"{"id":"x","products":["a","a"]}"#, "offerings[0].products[1]", "\"a\" is listed twice"),
            (#"{"id":"x","products":["a"]},{"id":"x","products":["a"]}"#, "offerings[1].id", "\"x\" is used twice"),
            (#"{"id":"x","products":["a"],"title":"X"}"#, "offerings[0].title", "unknown member (known: id, products)"),
        ])
    func offerings(json: String, path: String, reason: String) {
        let catalog = #"{"products":[{"id":"a","type":"nonConsumable"}],"offerings":[\#(json)]}"#
        #expect(Self.refusal(of: catalog) == InputError(path: path, reason: reason))
    }

    @Test(
        "Invalid products are rejected",
        arguments: [
            (#"{"products":[{"type":"nonConsumable"}]}"#, "products[0].id", "this is missing"),
            (#"{"products":[{"id":null,"type":"nonConsumable"}]}"#, "products[0].id", "this is missing"),
            (#"{"products":[{"id":"a"}]}"#, "products[0].type", "this is missing"),
            (
                #"{"products":[{"id":7,"type":"nonConsumable"}]}"#, "products[0].id",
                "a string is expected, not a number"
            ),
            (
                product(#""type":"lease""#), "products[0].type",
                "must be one of consumable, nonConsumable, nonRenewing, autoRenewable, not \"lease\""
            ),
            (
                product(#""type":"nonConsumable","colour":1"#), "products[0].colour",
                "unknown member (known: id, type, group, duration, units, level, introductory, names, "
                    + "forSale, requiresAccount)"
            ),
            (product(#""type":"nonConsumable","units":1"#), "products[0].units", "a nonConsumable has none"),
            (product(#""type":"consumable","duration":"P1M""#), "products[0].duration", "a consumable has none"),
            (
                product(#""type":"nonRenewing","group":"g","duration":"P1M","level":1"#), "products[0].level",
                "a nonRenewing has none"
            ),
            (product(#""type":"consumable","units":0"#), "products[0].units", "units must be 1 to 1,000,000, not 0"),
            (product(#""type":"consumable","units":-5"#), "products[0].units", "units must be 1 to 1,000,000, not -5"),
            (
                product(#""type":"consumable","units":1000001"#), "products[0].units",
                "units must be 1 to 1,000,000, not 1000001"
            ),
            (
                product(#""type":"consumable","units":1.5"#), "products[0].units",
                "a whole number is expected, not a number"
            ),
            (
                product(#""type":"consumable","units":99999999999999999999"#), "products[0].units",
                "a whole number is expected, not a number"
            ),
            (
                product(#""type":"consumable","units":"5""#), "products[0].units",
                "a whole number is expected, not a string"
            ),
            (product(#""type":"nonRenewing","duration":"P1M""#), "products[0].group", "this is missing"),
            (product(#""type":"nonRenewing","group":"g""#), "products[0].duration", "this is missing"),
            (
                product(#""type":"nonRenewing","group":"","duration":"P1M""#), "products[0].group",
                "an id must not be empty"
            ),
            (
                product(#""type":"nonRenewing","group":"g","duration":"3M""#), "products[0].duration",
                "\"3M\" is not a duration: it must begin with P (write P3M, P1W or P1D)"
            ),
            (
                product(#""type":"nonRenewing","group":"g","duration":"P0D""#), "products[0].duration",
                "a duration must be longer than zero"
            ),
            (
                product(#""type":"nonRenewing","group":"g","duration":"P101Y""#), "products[0].duration",
                "\"P101Y\" is not a duration: it is longer than 100 years (write P3M, P1W or P1D)"
            ),
            (
                product(#""type":"nonRenewing","group":"g","duration":"for ever""#), "products[0].duration",
                "\"for ever\" is not a duration: it must begin with P (write P3M, P1W or P1D)"
            ),
            (
                product(#""type":"autoRenewable","group":"g","duration":"forever""#), "products[0].duration",
                "only the duration of a nonRenewing product can be forever"
            ),
            (
                product(
                    #""type":"autoRenewable","group":"g","duration":"P1M","#
                        + #""introductory":{"mode":"free","duration":"forever"}"#
                ), "products[0].introductory.duration", "only the duration of a nonRenewing product can be forever"
            ),
            (#"{"products":[],"policy":{"bonus":"forever"}}"#, "policy.bonus", "a bonus must be at most 100 years"),
            (
                product(#""type":"autoRenewable","group":"g","duration":"P1M","level":0"#), "products[0].level",
                "a level must be 1 (highest) to 1,000, not 0"
            ),
            (
                product(#""type":"autoRenewable","group":"g","duration":"P1M","introductory":{"mode":"gift"}"#),
                "products[0].introductory.mode", "a mode is one of free, payAsYouGo, payUpFront"
            ),
            (
                product(#""type":"autoRenewable","group":"g","duration":"P1M","introductory":{"mode":"free"}"#),
                "products[0].introductory.duration", "this is missing"
            ),
            (
                product(
                    #""type":"autoRenewable","group":"g","duration":"P1M","#
                        + #""introductory":{"mode":"free","duration":"P0D"}"#
                ),
                "products[0].introductory.duration", "a duration must be longer than zero"
            ),
            (
                product(#""type":"nonConsumable","names":["A"]"#), "products[0].names",
                "an object is expected, not an array"
            ),
            (
                product(#""type":"nonConsumable","names":{"en":1}"#), "products[0].names.en",
                "a string is expected, not a number"
            ),
            (
                product(#""type":"nonConsumable","forSale":"yes""#), "products[0].forSale",
                "true or false is expected, not a string"
            ),
        ])
    func products(json: String, path: String, reason: String) {
        #expect(Self.refusal(of: json) == InputError(path: path, reason: reason))
    }

    @Test(
        "Invalid ids are rejected",
        arguments: [
            ("", "an id must not be empty"),
            (String(repeating: "x", count: 256), "an id must have at most 255 bytes, not 256"),
            (String(repeating: "x", count: 1_000_000), "an id must have at most 255 bytes, not 1000000"),
            (#"a\u0000b"#, "\"a\u{FFFD}b\" contains control characters, which an id must not"),
            (#"a\nb"#, "\"a\u{FFFD}b\" contains control characters, which an id must not"),
            (#"\u007f"#, "\"\u{FFFD}\" contains control characters, which an id must not"),
        ])
    func ids(id: String, reason: String) {
        let json = #"{"products":[{"id":"ok","type":"nonConsumable"},{"id":"\#(id)","type":"nonConsumable"}]}"#
        #expect(Self.refusal(of: json) == InputError(path: "products[1].id", reason: reason))
    }

    @Test("A duplicate id is rejected at its second use")
    func duplicates() {
        let product = #"{"id":"a","type":"nonConsumable"}"#
        #expect(
            Self.refusal(of: #"{"products":[\#(product),\#(product)]}"#)
                == InputError(path: "products[1].id", reason: "\"a\" is used twice"))
        let entitlement = #"{"id":"e","grantedBy":["product:a"]}"#
        #expect(
            Self.refusal(of: #"{"products":[\#(product)],"entitlements":[\#(entitlement),\#(entitlement)]}"#)
                == InputError(path: "entitlements[1].id", reason: "\"e\" is used twice"))
    }

    @Test("A group that mixes kinds is rejected at the differing product")
    func mixedKinds() {
        let json = #"""
            {"products":[{"id":"a","type":"nonRenewing","group":"g","duration":"P1M"},
                         {"id":"b","type":"autoRenewable","group":"g","duration":"P1M"}]}
            """#
        #expect(
            Self.refusal(of: json)
                == InputError(
                    path: "products[1].group",
                    reason: "\"g\" mixes nonRenewing and autoRenewable, a group holds one kind only"))
    }

    @Test(
        "Entitlements without a valid source are rejected",
        arguments: [
            (#"{"id":"e"}"#, "entitlements[0].grantedBy", "this is missing"),
            (#"{"id":"e","grantedBy":[]}"#, "entitlements[0].grantedBy", "nothing grants \"e\""),
            (#"{"grantedBy":["product:owl"]}"#, "entitlements[0].id", "this is missing"),
            (#"{"id":"","grantedBy":["product:owl"]}"#, "entitlements[0].id", "an id must not be empty"),
            (
                #"{"id":"e","grantedBy":["product:owl","product:cat"]}"#, "entitlements[0].grantedBy[1]",
                "no product has the id \"cat\""
            ),
            (
                #"{"id":"e","grantedBy":["group:none"]}"#, "entitlements[0].grantedBy[0]",
                "no product is in group \"none\""
            ),
            (
                #"{"id":"e","grantedBy":["units:none"]}"#, "entitlements[0].grantedBy[0]",
                "no product has the id \"none\""
            ),
            (
                #"{"id":"e","grantedBy":["units:owl"]}"#, "entitlements[0].grantedBy[0]",
                "\"owl\" is nonConsumable, only a consumable has units"
            ),
            (
                #"{"id":"e","grantedBy":["product:coins"]}"#, "entitlements[0].grantedBy[0]",
                "\"coins\" is consumable, write \"units:coins\""
            ),
            (
                #"{"id":"e","grantedBy":["owl"]}"#, "entitlements[0].grantedBy[0]",
                "must be one of product:ID, group:ID, group:ID@LEVEL, units:ID, not \"owl\""
            ),
            (
                #"{"id":"e","grantedBy":["Product:owl"]}"#, "entitlements[0].grantedBy[0]",
                "must be one of product:ID, group:ID, group:ID@LEVEL, units:ID, not \"Product:owl\""
            ),
            (#"{"id":"e","grantedBy":[1]}"#, "entitlements[0].grantedBy[0]", "a string is expected, not a number"),
            (
                #"{"id":"e","grantedBy":"product:owl"}"#, "entitlements[0].grantedBy",
                "an array is expected, not a string"
            ),
            (
                #"{"id":"e","grantedBy":["group:a\nb"]}"#, "entitlements[0].grantedBy[0]",
                "no product is in group \"a\u{FFFD}b\""
            ),
        ])
    func entitlements(entitlement: String, path: String, reason: String) {
        let json = #"""
            {"products":[{"id":"owl","type":"nonConsumable"},{"id":"coins","type":"consumable","units":5}],
             "entitlements":[\#(entitlement)]}
            """#
        #expect(Self.refusal(of: json) == InputError(path: path, reason: reason))
    }

    @Test(
        "Invalid documents and policies are rejected",
        arguments: [
            ("[]", "", "an object is expected, not an array"),
            ("{}", "products", "this is missing"),
            (#"{"products":{}}"#, "products", "an array is expected, not an object"),
            (#"{"products":[7]}"#, "products[0]", "an object is expected, not a number"),
            (
                #"{"products":[],"prices":[]}"#, "prices",
                "unknown member (known: products, entitlements, policy, content, offerings)"
            ),
            (
                #"{"products":[],"policy":{"bonus":"P1"}}"#, "policy.bonus",
                "\"P1\" is not a duration: a number is followed by Y, M, W or D, after T by H, M or S "
                    + "(write P3M, P1W or P1D)"
            ),
            (
                #"{"products":[],"policy":{"expiry":"newest"}}"#, "policy.expiry",
                "must be one of stackPurchases, latestExpiryWins, remoteWins, not \"newest\""
            ),
            (
                #"{"products":[],"policy":{"flags":"never"}}"#, "policy.flags",
                "must be one of purchasedWins, lastWriterWins, remoteWins, not \"never\""
            ),
            (
                #"{"products":[],"policy":{"consumables":true}}"#, "policy.consumables",
                "a string is expected, not true or false"
            ),
            (
                #"{"products":[],"policy":{"consumables":"none"}}"#, "policy.consumables",
                "must be one of deviceLocal, shared, not \"none\""
            ),
            (
                #"{"products":[],"policy":{"sandboxTime":"fast"}}"#, "policy.sandboxTime",
                "must be one of asSold, accelerated, not \"fast\""
            ),
            (
                #"{"products":[],"policy":{"sandboxTime":true}}"#, "policy.sandboxTime",
                "a string is expected, not true or false"
            ),
            (
                #"{"products":[],"policy":{"rule":"x"}}"#, "policy.rule",
                "unknown member (known: bonus, expiry, flags, consumables, sandboxTime)"
            ),
        ])
    func wholeAndPolicy(json: String, path: String, reason: String) {
        #expect(Self.refusal(of: json) == InputError(path: path, reason: reason))
    }

    @Test(
        "A syntax error is reported with line and column",
        arguments: [
            ("", "line 1, column 1", "the text ends where a value is expected"),
            ("{\n  \"products\": [\n    {\"id\": }\n]}", "line 3, column 12", "a value is expected here"),
            ("{\"products\":[],}", "line 1, column 16", "a member name in quotes is expected"),
            ("{\"products\":[]\n\"policy\":{}}", "line 2, column 1", "\",\" or \"}\" is expected"),
            ("{\"products\":[]}\n\n]", "line 3, column 1", "unexpected text after the end"),
            ("{\"products\":[],\n \"products\":[]}", "line 2, column 2", "\"products\" is repeated"),
            ("{\"products\":[\"\\ud83d\"]}", "line 1, column 21", "unpaired surrogate"),
        ])
    func syntax(json: String, place: String, reason: String) {
        #expect(Self.refusal(of: json)?.description == "\(place): \(reason)")
    }

    @Test("Invalid UTF-8 is rejected at its position")
    func invalidUTF8() {
        let json = Array("{\n \"products\":[\"".utf8) + [0xC3, 0x28] + Array("\"]}".utf8)
        #expect(Self.refusal(of: json)?.description == "line 2, column 15: the text is not UTF-8")
    }

    @Test("Every message is one line of bounded length for any catalogue")
    func messagesAreOneLine() throws {
        let odd = String(repeating: #"\n\u0000x"#, count: 500)
        for json in [
            #"{"\#(odd)":1}"#, #"{"products":[{"id":"a","type":"\#(odd)"}]}"#,
            Self.product(#""type":"nonRenewing","group":"g","duration":"\#(odd)""#),
            #"{"products":[],"entitlements":[{"id":"e","grantedBy":["group:\#(odd)"]}]}"#,
            #"{"products":[],"entitlements":[{"id":"e","grantedBy":["units:\#(odd)"]}]}"#,
            #"{"products":[],"entitlements":[{"id":"e","grantedBy":["\#(odd)"]}]}"#,
            #"{"products":[],"policy":{"expiry":"\#(odd)"}}"#, #"{"\#(odd)":1,"\#(odd)":2}"#,
            Self.product(#""type":"nonConsumable","names":{"\#(odd)":1}"#),
        ] {
            let message = try #require(Self.refusal(of: json)).description
            #expect(!message.utf8.contains { $0 < 0x20 || $0 == 0x7F }, "\(json.prefix(60))")
            #expect(message.utf8.count < 1_000, "\(json.prefix(60))")
        }
    }
}
