extension TransactionReference {
    /// The members that name the transaction in JSON.
    package var members: [(String, JSON)] {
        [
            ("store", .string(store.rawValue)), ("environment", .string(environment.rawValue)),
            ("transactionID", .string(id.rawValue)),
        ]
    }
}
