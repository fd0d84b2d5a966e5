extension Catalog {
    /// Reads a catalogue from JSON.
    ///
    /// ```json
    /// {"products":[{"id":"com.example.3months","type":"nonRenewing","group":"all","duration":"P3M"},
    ///              {"id":"com.example.owl","type":"nonConsumable"}],
    ///  "entitlements":[{"id":"owl","grantedBy":["product:com.example.owl","group:all"]}],
    ///  "policy":{"bonus":"P1D","expiry":"stackPurchases","flags":"purchasedWins","consumables":"shared"}}
    /// ```
    ///
    /// - Throws: ``InputError`` with the line and column of a syntax error, or the path of an invalid value. An
    ///   unknown member is an error too, because it is usually a misspelling.
    public init(json: some Collection<UInt8>) throws(InputError) {
        try self.init(try JSONReader(parsing: json))
    }

    /// Reads the catalogue that a server sends to apps. The server may be of a later version, so members that this
    /// version does not know are ignored. Everything else must be valid, because an unknown type or source could change
    /// what a purchase grants.
    ///
    /// - Throws: ``InputError`` as ``init(json:)``.
    package init(served json: some Collection<UInt8>) throws(InputError) {
        try self.init(try JSONReader(parsing: json), isStrict: false)
    }

    /// - Parameter isStrict: False to ignore unknown members.
    init(_ root: JSONReader, isStrict: Bool = true) throws(InputError) {
        let members = try root.object()
        if isStrict { try members.allow("products", "entitlements", "policy", "content", "offerings") }
        let products = try members.required("products").array().map { (reader) throws(InputError) in
            try Product(reader, isStrict)
        }
        let groups = Set(products.compactMap(\.kind.group))
        let entitlements = try members["entitlements"]?.array().map { (reader) throws(InputError) in
            try Entitlement(reader, groups, isStrict)
        }
        try self.init(
            products: products, entitlements: entitlements ?? [],
            policy: try members["policy"].map { (reader) throws(InputError) in
                try Policy(reader, isStrict)
            } ?? Policy(),
            content: try members["content"]?.array().map { (rule) throws(InputError) in
                try ContentRule(rule, isStrict)
            } ?? [],
            offerings: try members["offerings"]?.array().map { (reader) throws(InputError) in
                try Offering(reader, isStrict)
            } ?? [])
    }
}

extension Product {
    fileprivate init(_ reader: JSONReader, _ isStrict: Bool) throws(InputError) {
        let members = try reader.object()
        if isStrict {
            try members.allow(
                "id", "type", "group", "duration", "units", "level", "introductory", "names", "forSale",
                "requiresAccount")
        }
        var names: [String: String] = [:]
        for (language, name) in try members["names"]?.object().all ?? [] { names[language] = try name.string() }
        self.init(
            id: ProductID(try members.required("id").string()),
            kind: try ProductKind(members, isStrict),
            names: names,
            isForSale: try members["forSale"]?.bool() ?? true,
            requiresAccount: try members["requiresAccount"]?.bool() ?? false)
    }
}

extension ProductKind {
    fileprivate init(_ members: JSONObjectReader, _ isStrict: Bool) throws(InputError) {
        let type = try members.required("type")
        var needed: Set<String> = []
        switch try type.string() {
        case "consumable":
            needed = ["units"]
            self = .consumable(units: try members["units"]?.integer() ?? 1)
        case "nonConsumable":
            self = .nonConsumable
        case "nonRenewing":
            needed = ["group", "duration"]
            self = .nonRenewing(
                group: GroupID(try members.required("group").string()),
                duration: try members.required("duration").duration())
        case "autoRenewable":
            needed = ["group", "duration", "level", "introductory"]
            self = .autoRenewable(
                group: GroupID(try members.required("group").string()),
                level: try members["level"]?.integer() ?? 1,
                duration: try members.required("duration").duration(),
                introductory: try members["introductory"].map { (reader) throws(InputError) in
                    try IntroductoryOffer(reader, isStrict)
                })
        case let unknown:
            throw type.error(
                "must be one of consumable, nonConsumable, nonRenewing, autoRenewable, not \"\(unknown.singleLine)\"")
        }
        for name in ["units", "group", "duration", "level", "introductory"] where !needed.contains(name) {
            if let stray = members[name] { throw stray.error("a \(self.name) has none") }
        }
    }
}

extension IntroductoryOffer {
    fileprivate init(_ reader: JSONReader, _ isStrict: Bool) throws(InputError) {
        let members = try reader.object()
        if isStrict { try members.allow("mode", "duration") }
        let modeReader = try members.required("mode")
        guard let mode = Mode(rawValue: try modeReader.string()) else {
            throw modeReader.error("a mode is one of \(Mode.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        self.init(mode: mode, duration: try members.required("duration").duration())
    }
}

extension Entitlement {
    fileprivate init(_ reader: JSONReader, _ groups: Set<GroupID>, _ isStrict: Bool) throws(InputError) {
        let members = try reader.object()
        if isStrict { try members.allow("id", "grantedBy") }
        var sources: [Source] = []
        for source in try members.required("grantedBy").array() { sources.append(try Source(source, groups)) }
        self.init(id: EntitlementID(try members.required("id").string()), grantedBy: sources)
    }
}

extension Entitlement.Source {
    fileprivate init(_ reader: JSONReader, _ groups: Set<GroupID>) throws(InputError) {
        let text = try reader.string()
        // Splits by scalars rather than characters, because an id may begin with a mark that combines with the colon.
        let parts = text.unicodeScalars.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            .map { String($0) }
        switch (parts[0], parts.count) {
        case ("product", 2): self = .product(ProductID(parts[1]))
        case ("group", 2): self = Self.time(in: GroupID(parts[1]), groups)
        case ("units", 2): self = .units(ProductID(parts[1]))
        default:
            throw reader.error(
                "must be one of product:ID, group:ID, group:ID@LEVEL, units:ID, not \"\(text.singleLine)\"")
        }
    }

    /// Returns the source that the text after `group:` names. A group whose id is the whole text precedes a level.
    private static func time(in text: GroupID, _ groups: Set<GroupID>) -> Entitlement.Source {
        guard !groups.contains(text), let (group, suffix) = text.parts, let level = Int64(suffix),
            CatalogChecker.levelRange.contains(level), suffix == "\(level)"
        else { return .group(text) }
        return .level(group, level)
    }
}

extension Offering {
    fileprivate init(_ reader: JSONReader, _ isStrict: Bool) throws(InputError) {
        let members = try reader.object()
        if isStrict { try members.allow("id", "products") }
        var products: [ProductID] = []
        for product in try members.required("products").array() { products.append(ProductID(try product.string())) }
        self.init(id: OfferingID(try members.required("id").string()), products: products)
    }
}

extension ContentRule {
    fileprivate init(_ reader: JSONReader, _ isStrict: Bool) throws(InputError) {
        let members = try reader.object()
        if isStrict { try members.allow("path", "group", "entitlement", "by", "maximumLevel") }
        let source: Source
        switch (members["group"], members["entitlement"]) {
        case (let group?, nil): source = .group(GroupID(try group.string()))
        case (nil, let entitlement?): source = .entitlement(EntitlementID(try entitlement.string()))
        default: throw reader.error("a rule needs either a group or an entitlement")
        }
        self.init(
            path: try members.required("path").string(), source: source,
            basis: try named(try members.required("by"), among: Basis.allCases, \.rawValue),
            maximumLevel: try members["maximumLevel"]?.integer() ?? 1)
    }
}

extension Policy {
    fileprivate init(_ reader: JSONReader, _ isStrict: Bool) throws(InputError) {
        let members = try reader.object()
        if isStrict { try members.allow("bonus", "expiry", "flags", "consumables", "sandboxTime") }
        var rules = ConflictRules()
        if let expiry = members["expiry"] {
            rules.expiry = try named(expiry, among: ConflictRules.expiryRules, \.name)
        }
        if let flags = members["flags"] {
            rules.flags = try named(flags, among: ConflictRules.flagRules, \.name)
        }
        if let consumables = members["consumables"] {
            rules.consumables = try named(consumables, among: ConsumableScope.allCases, \.rawValue)
        }
        self.init(
            bonus: try members["bonus"]?.duration() ?? .zero, rules: rules,
            sandboxTime: try members["sandboxTime"].map { (reader) throws(InputError) in
                try named(reader, among: SandboxTime.allCases, \.rawValue)
            } ?? .asSold)
    }
}

private func named<Rule>(_ reader: JSONReader, among known: [Rule], _ name: (Rule) -> String) throws(InputError)
    -> Rule
{
    let text = try reader.string()
    guard let rule = known.first(where: { name($0) == text }) else {
        throw reader.error("must be one of \(known.map(name).joined(separator: ", ")), not \"\(text.singleLine)\"")
    }
    return rule
}
