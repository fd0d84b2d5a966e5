extension FaultRates {
    /// All rates with their names in source code and documents, in the order of the initializer.
    static let fields: [(name: String, path: any WritableKeyPath<FaultRates, Int> & Sendable)] = [
        ("lostRequests", \.lostRequests), ("lostAnswers", \.lostAnswers), ("repeatedRequests", \.repeatedRequests),
        ("refusals", \.refusals), ("staleReads", \.staleReads), ("longestDelay", \.longestDelay),
        ("delayed", \.delayed), ("diskErrors", \.diskErrors), ("diskUnknowns", \.diskUnknowns),
        ("diskPauses", \.diskPauses),
    ]
}
