extension Catalog {
    /// Reads a StoreKit configuration written by Xcode (`.storekit`, version 1 and later) as a catalogue.
    ///
    /// - Products keep their ids. `displayName` becomes the name for its language; the first locale of a language
    ///   supplies the name for the language itself.
    /// - A subscription group becomes a group with the `id` from the file, which StoreKit transactions carry too.
    ///   `groupNumber` is the level. An introductory offer lasts its period × the number of periods; if there are
    ///   several offers, the first counts.
    /// - A non-renewing subscription forms a group of its own unless `supplement` names one. Its duration comes from
    ///   `supplement`.
    /// - The file defines no entitlements. One is created for each non-consumable and each consumable, with the id of
    ///   the product, and one for each group, with the name of the subscription group or, if that is taken, the id of
    ///   the group.
    ///
    /// Unknown members are ignored, because Apple extends the format with new versions of Xcode. Every major version is
    /// read if the required members are in their places. Unknown kinds of products are rejected in every version.
    ///
    /// - Throws: ``InputError`` with the line and column of a syntax error, or the path of an invalid value. If
    ///   durations are missing, the error lists every product that needs one. A file without products is an error too.
    public init(
        storeKitConfiguration json: some Collection<UInt8>, supplement: StoreKitSupplement = StoreKitSupplement()
    )
        throws(InputError)
    {
        try self.init(storeKitConfiguration: try JSONReader(parsing: json), supplement: supplement)
    }

    /// Reads a catalogue in either format. A StoreKit configuration is recognized by its `version` member.
    ///
    /// - Throws: The errors of ``init(json:)`` and ``init(storeKitConfiguration:supplement:)``, and ``InputError`` if
    ///   a supplement is given for a catalogue that is not a StoreKit configuration.
    public init(anyJSON json: some Collection<UInt8>, supplement: StoreKitSupplement = StoreKitSupplement())
        throws(InputError)
    {
        let root = try JSONReader(parsing: json)
        if root.value["version"] != nil {
            try self.init(storeKitConfiguration: root, supplement: supplement)
            return
        }
        try self.init(root)
        guard supplement.isEmpty else {
            throw InputError(
                path: "",
                reason:
                    "durations, groups and units are for .storekit files only; this catalogue contains them")
        }
    }

    private init(storeKitConfiguration root: JSONReader, supplement: StoreKitSupplement) throws(InputError) {
        var reader = StoreKitReader(supplement: supplement)
        try reader.read(try root.object(), root)
        try self.init(products: reader.products, entitlements: reader.entitlements)
    }
}

/// Collects the products of a StoreKit configuration.
private struct StoreKitReader {
    let supplement: StoreKitSupplement
    private(set) var products: [Product] = []
    private var kinds: [ProductID: ProductKind] = [:]
    /// The ids of groups and their names in the file, in the order of the file.
    private var groups: [(id: GroupID, name: String?)] = []
    private var knownGroups: Set<GroupID> = []
    private var withoutDuration: [ProductID] = []

    init(supplement: StoreKitSupplement) {
        self.supplement = supplement
    }

    mutating func read(_ root: JSONObjectReader, _ whole: JSONReader) throws(InputError) {
        let version = try root.required("version")
        let major = try version.object().required("major")
        guard try major.integer() >= 1 else {
            throw major.error("the version of a StoreKit configuration is 1 or later, not \(try major.integer())")
        }
        let lists = ["products", "nonRenewingSubscriptions", "subscriptionGroups"]
        guard lists.contains(where: { root[$0] != nil }) else {
            throw whole.error("a StoreKit configuration has one of \(lists.joined(separator: ", ")), this has none")
        }
        for list in lists.prefix(2) {
            for reader in try root[list]?.array() ?? [] { try readProduct(reader) }
        }
        for reader in try root["subscriptionGroups"]?.array() ?? [] { try readGroup(reader) }
        guard !products.isEmpty else {
            throw whole.error(
                "the file has no products: add them in Xcode, or let Xcode sync the file with App Store Connect")
        }
        try supplement.check(against: kinds)
        guard withoutDuration.isEmpty else {
            let ids = withoutDuration.sorted().map { "\"\($0)\"" }.joined(separator: ", ")
            throw InputError(
                path: "nonRenewingSubscriptions",
                reason: "the file does not say how long a non-renewing subscription lasts: "
                    + "give --duration ID=P3M for each of \(ids)")
        }
    }

    private mutating func readProduct(_ reader: JSONReader) throws(InputError) {
        let members = try reader.object()
        let id = ProductID(try members.required("productID").string())
        let type = try members.required("type")
        switch try type.string() {
        case "Consumable":
            try add(id, .consumable(units: supplement.units[id] ?? 1), members, reader)
        case "NonConsumable":
            try add(id, .nonConsumable, members, reader)
        case "NonRenewingSubscription":
            let group = supplement.groups[id] ?? GroupID(id.rawValue)
            if supplement.durations[id] == nil { withoutDuration.append(id) }
            let isKnown = knownGroups.contains(group)
            // A missing duration may be replaced by any other, because reading ends with an error.
            let duration = supplement.durations[id] ?? CalendarDuration(days: 1)
            try add(id, .nonRenewing(group: group, duration: duration), members, reader)
            if !isKnown { groups.append((group, nil)) }
        case let unknown:
            throw type.error(
                "\"\(unknown.singleLine)\" is none of Consumable, NonConsumable, NonRenewingSubscription")
        }
    }

    private mutating func readGroup(_ reader: JSONReader) throws(InputError) {
        let members = try reader.object()
        let idReader = try members.required("id")
        let group = GroupID(try idReader.string())
        guard !knownGroups.contains(group) else {
            throw idReader.error("the group \"\(group.rawValue.singleLine)\" is there already")
        }
        let subscriptions = try members["subscriptions"]?.array() ?? []
        for reader in subscriptions { try readSubscription(reader, in: group) }
        // An entitlement cannot be granted by a group without products.
        if !subscriptions.isEmpty { groups.append((group, try members["name"]?.string())) }
    }

    private mutating func readSubscription(_ reader: JSONReader, in group: GroupID) throws(InputError) {
        let members = try reader.object()
        let type = try members.required("type")
        guard try type.string() == "RecurringSubscription" else {
            throw type.error("\"\(try type.string().singleLine)\" is not RecurringSubscription")
        }
        let kind = ProductKind.autoRenewable(
            group: group, level: try members.required("groupNumber").integer(),
            duration: try members.required("recurringSubscriptionPeriod").duration(),
            introductory: try introductoryOffer(members))
        try add(ProductID(try members.required("productID").string()), kind, members, reader)
    }

    private func introductoryOffer(_ members: JSONObjectReader) throws(InputError) -> IntroductoryOffer? {
        let first = try members["introductoryOffers"]?.array().first
        guard let reader = members["introductoryOffer"] ?? first else { return nil }
        let offer = try reader.object()
        let modeReader = try offer.required("paymentMode")
        guard let mode = IntroductoryOffer.Mode(rawValue: try modeReader.string()) else {
            let known = IntroductoryOffer.Mode.allCases.map(\.rawValue).joined(separator: ", ")
            throw modeReader.error("\"\(try modeReader.string().singleLine)\" is none of \(known)")
        }
        let countReader = offer["numberOfPeriods"]
        let count = try countReader?.integer() ?? 1
        let period = try offer.required("subscriptionPeriod").duration()
        let duration = (1...1_000).contains(count) ? period.multiplied(by: count) : .zero
        guard duration.isWithinBounds, duration != .zero else {
            throw (countReader ?? reader).error("an offer must last longer than zero and at most 100 years")
        }
        return IntroductoryOffer(mode: mode, duration: duration)
    }

    private mutating func add(
        _ id: ProductID, _ kind: ProductKind, _ members: JSONObjectReader, _ reader: JSONReader
    ) throws(InputError) {
        let product = Product(id: id, kind: kind, names: try names(members))
        // Validates the product in a catalogue of its own, so that the error names its place in the file.
        do { _ = try Catalog(products: [product]) } catch {
            throw InputError(path: reader.path + Self.member(at: error.path), reason: error.reason)
        }
        guard kinds.updateValue(kind, forKey: id) == nil else {
            throw InputError(path: "\(reader.path).productID", reason: "\"\(id)\" is used twice")
        }
        if let group = kind.group { knownGroups.insert(group) }
        products.append(product)
    }

    /// Returns the member of the file that corresponds to a path in a catalogue of one product.
    private static func member(at path: String) -> String {
        switch path {
        case "products[0].id": ".productID"
        case "products[0].level": ".groupNumber"
        case "products[0].duration": ".recurringSubscriptionPeriod"
        case "products[0].introductory.duration": ".introductoryOffer"
        default: ""
        }
    }

    private func names(_ members: JSONObjectReader) throws(InputError) -> [String: String] {
        var names: [String: String] = [:]
        for reader in try members["localizations"]?.array() ?? [] {
            let localization = try reader.object()
            guard let name = try localization["displayName"]?.string(), !name.isEmpty else { continue }
            let tag = try localization.required("locale").string().map { $0 == "_" ? "-" : $0 }
            let language = String(tag.prefix { $0 != "-" })
            names[names[language] == nil ? language : String(tag)] = name
        }
        return names
    }

    var entitlements: [Entitlement] {
        var found: [Entitlement] = []
        for product in products {
            let id = EntitlementID(product.id.rawValue)
            switch product.kind {
            case .consumable: found.append(Entitlement(id: id, grantedBy: [.units(product.id)]))
            case .nonConsumable: found.append(Entitlement(id: id, grantedBy: [.product(product.id)]))
            case .nonRenewing, .autoRenewable: break
            }
        }
        var taken = Set(found.map(\.id)).union(groups.map { EntitlementID($0.id.rawValue) })
        for (group, name) in groups {
            let wanted = EntitlementID(name ?? "")
            let isFree = (try? wanted.validate()) != nil && taken.insert(wanted).inserted
            found.append(
                Entitlement(id: isFree ? wanted : EntitlementID(group.rawValue), grantedBy: [.group(group)]))
        }
        return found
    }
}
