extension FaultRates {
    /// A rate and its name in source code and documents.
    struct Field: Sendable {
        let name: String
        let path: any WritableKeyPath<FaultRates, Int> & Sendable
    }

    /// All rates, in the order of the initializer.
    static let fields = [
        Field(name: "lostRequests", path: \.lostRequests), Field(name: "lostAnswers", path: \.lostAnswers),
        Field(name: "repeatedRequests", path: \.repeatedRequests), Field(name: "refusals", path: \.refusals),
        Field(name: "staleReads", path: \.staleReads), Field(name: "longestDelay", path: \.longestDelay),
        Field(name: "delayed", path: \.delayed), Field(name: "diskErrors", path: \.diskErrors),
        Field(name: "diskUnknowns", path: \.diskUnknowns), Field(name: "diskPauses", path: \.diskPauses),
    ]
}
