extension Snapshot {
    /// The periods of a group's timeline as a JSON object.
    ///
    /// - Parameter timeline: The timeline of the subscription's group in the replay of the snapshot.
    package func json(of subscription: Subscription, _ timeline: Timeline) -> JSON {
        .object([
            ("group", .string(subscription.group.rawValue)), ("at", .string("\(at)")),
            ("active", .bool(subscription.isActive)), ("expires", JSON(subscription.expires?.description)),
            ("periods", .array(timeline.contributions.filter { $0.start < .latest }.map(\.timelineJSON))),
            (
                "chains",
                .array(
                    timeline.chains.map { chain in
                        .object([
                            ("start", .string("\(chain.start)")), ("end", JSON(chain.end.asEnd?.description)),
                        ])
                    })
            ),
        ])
    }
}

extension Period {
    fileprivate var timelineJSON: JSON {
        .object(
            [("start", .string("\(start)")), ("end", JSON(end.asEnd?.description))] + transactionMembers
                + [("productID", JSON(product?.rawValue)), ("revokedAt", JSON(revokedAt?.description))] + sourceMembers)
    }
}
