import Entitlements
import Foundation
import Testing

@Suite("StoreKit configurations are read as catalogues")
struct StoreKitTests {
    /// One product of each kind in the layout of Xcode 15, reduced to the relevant members and some ignored ones.
    private static func file(
        version: String = #"{"major":4,"minor":0}"#, products: String = coins + "," + owl,
        nonRenewing: String = quarter,
        subscriptions: String = weekly + "," + yearly
    ) -> [UInt8] {
        Array(
            """
            {"identifier":"1A2B","settings":{"_timeRate":0},"version":\(version),
             "products":[\(products)],"nonRenewingSubscriptions":[\(nonRenewing)],
             "subscriptionGroups":[{"id":"20999999","localizations":[],"name":"Selfies",
                                    "subscriptions":[\(subscriptions)]},
                                   {"id":"EMPTY","name":"Nothing yet","subscriptions":[]}]}
            """.utf8)
    }

    private static let coins = #"{"productID":"coins","type":"Consumable","displayPrice":"0.99","localizations":[]}"#
    private static let owl = """
        {"productID":"owl","type":"NonConsumable","familyShareable":true,"localizations":[
          {"locale":"en_US","displayName":"Owl","description":""},{"locale":"en_GB","displayName":"Hibou"},
          {"locale":"pt_BR","displayName":"Coruja"},{"locale":"de","displayName":""}]}
        """
    private static let quarter = #"{"productID":"quarter","type":"NonRenewingSubscription","referenceName":"3 months"}"#
    private static let weekly = """
        {"productID":"weekly","type":"RecurringSubscription","groupNumber":2,"recurringSubscriptionPeriod":"P1W",
         "introductoryOffer":{"paymentMode":"payAsYouGo","numberOfPeriods":3,"subscriptionPeriod":"P1M"},
         "winbackOffers":[{"anything":[1.5e3]}]}
        """
    private static let yearly = """
        {"productID":"yearly","type":"RecurringSubscription","groupNumber":1,"recurringSubscriptionPeriod":"P1Y",
         "introductoryOffers":[{"paymentMode":"free","subscriptionPeriod":"P2W"}]}
        """
    private static let quarterLasts = StoreKitSupplement(durations: ["quarter": CalendarDuration(months: 3)])

    private static func refusal(of json: [UInt8], _ supplement: StoreKitSupplement = quarterLasts) -> String? {
        do {
            _ = try Catalog(anyJSON: json, supplement: supplement)
            return nil
        } catch { return "\(error)" }
    }

    @Test("Each kind of product is read, with group, level, offer, names, and an entitlement for each thing sold")
    func kinds() throws {
        let catalog = try Catalog(anyJSON: Self.file(), supplement: Self.quarterLasts)
        let (month, week) = (CalendarDuration(months: 1), CalendarDuration(days: 7))
        #expect(
            catalog.products == [
                Product(id: "coins", kind: .consumable(units: 1)),
                Product(id: "owl", kind: .nonConsumable, names: ["en": "Owl", "en-GB": "Hibou", "pt": "Coruja"]),
                Product(id: "quarter", kind: .nonRenewing(group: "quarter", duration: CalendarDuration(months: 3))),
                Product(
                    id: "weekly",
                    kind: .autoRenewable(
                        group: "20999999", level: 2, duration: week,
                        introductory: IntroductoryOffer(mode: .payAsYouGo, duration: month.multiplied(by: 3)))),
                Product(
                    id: "yearly",
                    kind: .autoRenewable(
                        group: "20999999", level: 1, duration: CalendarDuration(months: 12),
                        introductory: IntroductoryOffer(mode: .free, duration: CalendarDuration(days: 14)))),
            ])
        #expect(
            catalog.entitlements == [
                Entitlement(id: "Selfies", grantedBy: [.group("20999999")]),
                Entitlement(id: "coins", grantedBy: [.units("coins")]),
                Entitlement(id: "owl", grantedBy: [.product("owl")]),
                Entitlement(id: "quarter", grantedBy: [.group("quarter")]),
            ])
        #expect(catalog.policy.bonus == .zero)
    }

    @Test("A supplement gives durations, a common group and units")
    func supplement() throws {
        let half = Self.quarter.replacing("quarter", with: "half")
        let catalog = try Catalog(
            anyJSON: Self.file(nonRenewing: Self.quarter + "," + half),
            supplement: StoreKitSupplement(
                durations: ["quarter": CalendarDuration(months: 3), "half": CalendarDuration(months: 6)],
                groups: ["quarter": "random", "half": "random"], units: ["coins": 5]))
        #expect(
            catalog[product: "half"]?.kind == .nonRenewing(group: "random", duration: CalendarDuration(months: 6)))
        #expect(
            catalog[product: "quarter"]?.kind == .nonRenewing(group: "random", duration: CalendarDuration(months: 3)))
        #expect(catalog[product: "coins"]?.kind == .consumable(units: 5))
        #expect(catalog[entitlement: "random"]?.grantedBy == [.group("random")])
        #expect(catalog[entitlement: "quarter"] == nil)
    }

    @Test("The entitlement of a group whose name is taken has the id of the group")
    func takenName() throws {
        let catalog = try Catalog(
            anyJSON: Self.file(products: Self.owl.replacing("owl", with: "Selfies"), nonRenewing: ""))
        #expect(catalog[entitlement: "Selfies"]?.grantedBy == [.product("Selfies")])
        #expect(catalog[entitlement: "20999999"]?.grantedBy == [.group("20999999")])
    }

    @Test("Every major version from 1 is read alike", arguments: [1, 2, 3, 4, 9])
    func majorVersions(major: Int) throws {
        let file = Self.file(version: #"{"major":\#(major),"minor":1}"#)
        let catalog = try Catalog(anyJSON: file, supplement: Self.quarterLasts)
        let current = try Catalog(anyJSON: Self.file(), supplement: Self.quarterLasts)
        #expect(catalog.products == current.products && catalog.products.count == 5)
        #expect(catalog.entitlements == current.entitlements)
    }

    /// The layouts that Xcode 12, 13 and 14 write for one product of each kind, with all their members.
    private static let xcodeLayouts: [(major: Int, settings: String, product: String, subscription: String)] = [
        (1, "{}", "", #""introductoryOffer":null"#),
        (
            2, #"{"_failTransactionsEnabled":false,"_locale":"en_US","_storefront":"USA","_timeRate":0}"#,
            #""familyShareable":true,"#,
            #""codeOffers":[],"introductoryOffer":{"internalID":"7A","paymentMode":"free","subscriptionPeriod":"P1W"}"#
        ),
        (
            3,
            #"""
            {"_applicationInternalID":"1500000000","_developerTeamID":"TEAM","_lastSynchronizedDate":702654321.5,
             "_storeKitErrors":[{"current":null,"enabled":false,"name":"Load Products"},
                                {"current":{"index":2,"type":"purchase"},"enabled":true,"name":"Purchase"}]}
            """#,
            #""familyShareable":false,"#,
            #"""
            "codeOffers":[{"displayPrice":"0.99","eligibility":["existing"],"internalID":"7B","isStackable":true,
              "paymentMode":"payUpFront","referenceName":"half","subscriptionPeriod":"P1M"}],
            "introductoryOffer":{"displayPrice":"1.99","internalID":"7C","numberOfPeriods":2,"paymentMode":"payAsYouGo",
              "subscriptionPeriod":"P1M"}
            """#
        ),
    ]

    @Test("The layouts of Xcode 12 to 14 are read with all their members", arguments: 0..<3)
    func earlierLayouts(_ index: Int) throws {
        let layout = Self.xcodeLayouts[index]
        func product(_ id: String, _ type: String) -> String {
            """
            {"displayPrice":"2.99",\(layout.product)"internalID":"5D\(id)","localizations":[{"description":"About it",
             "displayName":"The \(id)","locale":"en_US"}],"productID":"\(id)","referenceName":null,"type":"\(type)"}
            """
        }
        let file = """
            {"identifier":"C0FFEE12","nonRenewingSubscriptions":[\(product("quarter", "NonRenewingSubscription"))],
             "products":[\(product("coins", "Consumable")),\(product("owl", "NonConsumable"))],
             "settings":\(layout.settings),
             "subscriptionGroups":[{"id":"B00C","localizations":[],"name":"Selfies","subscriptions":[
               {"adHocOffers":[],"displayPrice":"4.99","familyShareable":false,"groupNumber":1,"internalID":"5E",
                \(layout.subscription),"localizations":[],"productID":"monthly","recurringSubscriptionPeriod":"P1M",
                "referenceName":"Monthly","subscriptionGroupID":"B00C","type":"RecurringSubscription"}]}],
             "version":{"major":\(layout.major),"minor":0}}
            """
        let catalog = try Catalog(anyJSON: Array(file.utf8), supplement: Self.quarterLasts)
        let month = CalendarDuration(months: 1)
        let offers: [IntroductoryOffer?] = [
            nil, IntroductoryOffer(mode: .free, duration: CalendarDuration(days: 7)),
            IntroductoryOffer(mode: .payAsYouGo, duration: CalendarDuration(months: 2)),
        ]
        #expect(
            catalog.products == [
                Product(id: "coins", kind: .consumable(units: 1), names: ["en": "The coins"]),
                Product(id: "owl", kind: .nonConsumable, names: ["en": "The owl"]),
                Product(
                    id: "quarter", kind: .nonRenewing(group: "quarter", duration: CalendarDuration(months: 3)),
                    names: ["en": "The quarter"]),
                Product(
                    id: "monthly",
                    kind: .autoRenewable(group: "B00C", level: 1, duration: month, introductory: offers[index])),
            ])
        #expect(catalog[entitlement: "Selfies"]?.grantedBy == [.group("B00C")])
    }

    @Test("A file without products is an error that says so")
    func withoutProducts() {
        let none = "the file has no products: add them in Xcode, or let Xcode sync the file with App Store Connect"
        #expect(Self.refusal(of: Self.file(products: "", nonRenewing: "", subscriptions: "")) == none)
        #expect(Self.refusal(of: Array(#"{"version":{"major":1},"products":[]}"#.utf8), .init()) == none)
    }

    @Test("A file without a valid version or without lists of products is rejected")
    func versions() {
        #expect(
            Self.refusal(of: Self.file(version: #"{"major":0,"minor":0}"#))
                == "version.major: the version of a StoreKit configuration is 1 or later, not 0")
        #expect(Self.refusal(of: Self.file(version: "{}")) == "version.major: this is missing")
        #expect(Self.refusal(of: Self.file(version: "4")) == "version: an object is expected, not a number")
        #expect(
            Self.refusal(of: Array(#"{"version":{"major":4}}"#.utf8))
                == "a StoreKit configuration has one of products, nonRenewingSubscriptions, subscriptionGroups, this "
                + "has none")
    }

    @Test("One error lists all missing durations")
    func missingDurations() {
        let more = ["half", "year"].map { Self.quarter.replacing("quarter", with: $0) }
        #expect(
            Self.refusal(
                of: Self.file(nonRenewing: ([Self.quarter] + more).joined(separator: ",")),
                StoreKitSupplement(durations: ["half": CalendarDuration(months: 6)]))
                == "nonRenewingSubscriptions: the file does not say how long a non-renewing subscription lasts: give "
                + #"--duration ID=P3M for each of "quarter", "year""#)
    }

    @Test("A supplement for an unsuitable product or for a JSON catalogue is rejected")
    func strayedSupplement() {
        var supplement = Self.quarterLasts
        supplement.durations["nothing"] = CalendarDuration(months: 1)
        #expect(
            Self.refusal(of: Self.file(), supplement)
                == #"a duration is given for "nothing", which the file does not sell"#)
        supplement.durations = ["quarter": CalendarDuration(months: 3), "owl": CalendarDuration(months: 1)]
        #expect(Self.refusal(of: Self.file(), supplement) == #"a duration is given for "owl", which is nonConsumable"#)
        supplement = Self.quarterLasts
        supplement.groups["weekly"] = "g"
        #expect(Self.refusal(of: Self.file(), supplement) == #"a group is given for "weekly", which is autoRenewable"#)
        supplement = Self.quarterLasts
        supplement.units["owl"] = 2
        #expect(
            Self.refusal(of: Self.file(), supplement)
                == #"a number of units is given for "owl", which is nonConsumable"#)
        #expect(
            Self.refusal(of: Array(#"{"products":[]}"#.utf8), Self.quarterLasts)
                == "durations, groups and units are for .storekit files only; this catalogue contains them")
    }

    @Test(
        "Errors are reported with their place in the file",
        arguments: [
            (file(products: #"{"productID":"a","type":"Lease"}"#), "products[0].type"),
            (file(products: #"{"type":"Consumable"}"#), "products[0].productID"),
            (file(products: #"{"productID":"","type":"Consumable"}"#), "products[0].productID"),
            (file(products: owl + "," + owl), "products[1].productID"),
            (
                file(products: #"{"productID":"weekly","type":"Consumable"}"#),
                "subscriptionGroups[0].subscriptions[0].productID"
            ),
            (
                file(subscriptions: weekly.replacing("P1W", with: "weekly")),
                "subscriptionGroups[0].subscriptions[0].recurringSubscriptionPeriod"
            ),
            (
                file(subscriptions: weekly.replacing("P1W", with: "P0D")),
                "subscriptionGroups[0].subscriptions[0].recurringSubscriptionPeriod"
            ),
            (
                file(subscriptions: weekly.replacing("\"groupNumber\":2", with: "\"groupNumber\":0")),
                "subscriptionGroups[0].subscriptions[0].groupNumber"
            ),
            (
                file(subscriptions: weekly.replacing("payAsYouGo", with: "credit")),
                "subscriptionGroups[0].subscriptions[0].introductoryOffer.paymentMode"
            ),
            (
                file(subscriptions: weekly.replacing("\"numberOfPeriods\":3", with: "\"numberOfPeriods\":-1")),
                "subscriptionGroups[0].subscriptions[0].introductoryOffer.numberOfPeriods"
            ),
            (
                file(subscriptions: weekly.replacing("Recurring", with: "Lifetime")),
                "subscriptionGroups[0].subscriptions[0].type"
            ),
        ])
    func places(json: [UInt8], path: String) {
        var place: String?
        do { _ = try Catalog(storeKitConfiguration: json, supplement: Self.quarterLasts) } catch { place = error.path }
        #expect(place == path)
    }

    private static let shared = URL(filePath: #filePath).appending(path: "../../../../../shared/vectors/storekit")
        .appending(path: "UnitTestsConfiguration.storekit").standardizedFileURL.path(percentEncoded: false)

    @Test(
        "A file of a shipping app, version 5, published by RevenueCat",
        .enabled(if: FileManager.default.fileExists(atPath: shared), "needs the shared test vectors"))
    func shippingApp() throws {
        let json = try Data(contentsOf: URL(filePath: Self.shared))
        #expect(
            Self.refusal(of: Array(json), StoreKitSupplement())?.hasSuffix(#"each of "com.revenuecat.non_renewable""#)
                == true)
        let catalog = try Catalog(
            anyJSON: json,
            supplement: StoreKitSupplement(durations: ["com.revenuecat.non_renewable": CalendarDuration(months: 1)]))
        #expect(catalog.products.count == 7)
        #expect(catalog.groups == ["4BB746BD", "7096FF06", "com.revenuecat.non_renewable"])
        #expect(
            catalog[product: "com.revenuecat.monthly_4.99.1_week_intro"]
                == Product(
                    id: "com.revenuecat.monthly_4.99.1_week_intro",
                    kind: .autoRenewable(
                        group: "7096FF06", level: 1, duration: CalendarDuration(months: 1),
                        introductory: IntroductoryOffer(mode: .free, duration: CalendarDuration(months: 3))),
                    names: ["en": "Monthly Free Trial"]))
        #expect(
            catalog.entitlements.map(\.id) == [
                "com.revenuecat.consumable", "com.revenuecat.non_renewable", "lifetime", "subscription_group_1",
                "subscription_group_2",
            ])
    }
}
