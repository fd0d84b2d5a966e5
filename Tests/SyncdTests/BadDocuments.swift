/// Invalid documents with their errors.
enum BadDocuments {
    static let catalogs: [(text: String, reason: String)] = [
        ("", "line 1, column 1: the text ends where a value is expected"),
        ("{\"products\": [\n{\"id\" \"a\"}]}", #"line 2, column 7: ":" is expected after a member name"#),
        ("[]", "an object is expected, not an array"),
        (
            #"{"products": [{"id": "a", "type": "nonRenewing", "group": "g", "duration": "3M"}]}"#,
            #"products[0].duration: "3M" is not a duration: it must begin with P (write P3M, P1W or P1D)"#
        ),
        (
            #"{"products": [{"id": "a", "type": "nonRenewing", "group": "g", "duration": "P3M"}, "#
                + #"{"id": "b", "type": "autoRenewable", "group": "g", "level": 1, "duration": "P1M"}]}"#,
            #"products[1].group: "g" mixes nonRenewing and autoRenewable, a group holds one kind only"#
        ),
        (
            #"{"products": [{"id": "a", "type": "nonConsumable"}], "#
                + #""entitlements": [{"id": "e", "grantedBy": ["product:z"]}]}"#,
            #"entitlements[0].grantedBy[0]: no product has the id "z""#
        ),
        (
            #"{"products": [{"id": "a", "type": "nonConsumable"}], "entitlements": [{"id": "e", "grantedBy": []}]}"#,
            #"entitlements[0].grantedBy: nothing grants "e""#
        ),
        (
            #"{"products": [{"id": "", "type": "nonConsumable"}]}"#,
            "products[0].id: an id must not be empty"
        ),
        (
            #"{"products": [{"id": "a", "type": "nonConsumable"}, {"id": "a", "type": "nonConsumable"}]}"#,
            #"products[1].id: "a" is used twice"#
        ),
    ]

    /// A valid entry, followed by one with these members.
    private static func history(_ members: String) -> String {
        #"[{"transactionID": "sound", "productID": "\#(Owls.night)", "purchaseDate": "2026-01-01"}, "#
            + "{\(members)}]"
    }

    static func entry(id: String, date: String = "2026-01-01", more: String = "") -> String {
        history(#""transactionID": "\#(id)", "productID": "\#(Owls.night)", "purchaseDate": "\#(date)"\#(more)"#)
    }

    static let histories: [(text: String, reason: String)] = [
        (
            "[{\"transactionID\": \"a\",\n \"productID\" 1}]",
            #"line 2, column 14: ":" is expected after a member name"#
        ),
        ("{}", "an array is expected, not an object"),
        (
            history(#""transactionID": "a", "productID": "x", "purchaseDate": "2026-01-01""#),
            #"[1].productID: the catalogue has no product "x""#
        ),
        (entry(id: "sound"), #"[1]: transaction "sound" is repeated"#),
        (
            entry(id: "a", date: "2026-02-30"),
            #"[1].purchaseDate: "2026-02-30" is not a date: the day is 30, not 1 to 28 "#
                + "(write 2026-01-31T12:00:00Z or 2026-01-31)"
        ),
        (entry(id: "a", more: #", "quantity": 0"#), "[1].quantity: quantity must be 1 to 10,000, not 0"),
        (entry(id: "a", more: #", "quantity": 10001"#), "[1].quantity: quantity must be 1 to 10,000, not 10001"),
        (entry(id: ""), "[1].transactionID: an id must not be empty"),
        (
            entry(id: #"a\u0000b"#),
            "[1].transactionID: \"a\u{FFFD}b\" contains control characters, which an id must not"
        ),
        (
            entry(id: #"a\u001bb"#),
            "[1].transactionID: \"a\u{FFFD}b\" contains control characters, which an id must not"
        ),
        (
            entry(id: String(repeating: "x", count: 1 << 20)),
            "[1].transactionID: an id must have at most 255 bytes, not 1048576"
        ),
    ]
}
