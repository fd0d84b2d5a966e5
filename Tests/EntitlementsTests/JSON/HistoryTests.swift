import Entitlements
import Testing

@Suite("Histories of transactions in JSON")
struct HistoryTests {
    private func entries(id: String) throws -> [History.Entry] {
        let catalog = try Catalog(products: [Product(id: "owl", kind: .nonConsumable)])
        let json = #"[{"transactionID":\#(id),"productID":"owl","purchaseDate":"2026-01-01"}]"#
        return try History(json: Array(json.utf8), catalog: catalog).entries
    }

    @Test("A transaction id that is a number is the id with its digits")
    func numbers() throws {
        #expect(try entries(id: "1000000831360853").map(\.transaction) == ["1000000831360853"])
        #expect(try entries(id: "1000000831360853") == entries(id: "\"1000000831360853\""))
    }

    @Test("A number that other programs round is refused", arguments: ["9007199254740992", "-7", "1.5", "1e3"])
    func rounded(number: String) {
        let error = #expect(throws: InputError.self) { try entries(id: number) }
        #expect(
            error?.description
                == "[0].transactionID: an id is a text, or a whole number below 2^53 that no program rounds, not "
                + number)
    }
}
