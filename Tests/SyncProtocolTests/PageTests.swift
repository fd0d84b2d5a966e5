import SyncCore
import SyncProtocol
import Testing

@Suite("Pages on the wire")
struct PageTests {
    private let version = EntryVersion(bytes: [0x0F])
    private let cursor = ChangeCursor(sequence: .max, tag: 255)

    @Test("A cursor has one text, and a text stands for one cursor")
    func cursors() throws {
        for cursor in [cursor, ChangeCursor(sequence: 0, tag: .max), ChangeCursor(sequence: 17, tag: 0)] {
            #expect(try CursorText.cursor(CursorText.text(of: cursor)) == cursor)
        }
        #expect(CursorText.text(of: ChangeCursor(sequence: 17, tag: 255)) == "17-00000000000000ff")
    }

    @Test(
        "A malformed cursor is rejected",
        arguments: [
            "", "-", "17", "17-", "17-ff", "-00000000000000ff", "017-00000000000000ff", "+1-00000000000000ff",
            "17-00000000000000FF", "17-+0000000000000ff", "17-00000000000000ff ", "1-2-00000000000000ff",
            "18446744073709551616-00000000000000ff", "１-00000000000000ff",
        ])
    func wrongCursors(text: String) {
        let error = #expect(throws: BackendError.self) { try CursorText.cursor(text) }
        #expect(error?.kind == .invalidCursor)
    }

    @Test("A page of keys survives the way over the wire, in the documented JSON")
    func keys() throws {
        let page = KeyPage(items: [.init(key: try EntryKey("a"), version: version)], next: try EntryKey("a"))
        let json = try KeyPageBody.json(of: page)
        #expect(String(decoding: json, as: UTF8.self) == #"{"items":[{"key":"a","version":"0f"}],"next":"a"}"#)
        #expect(try KeyPageBody.page(json: json) == page)
        let last = KeyPage(items: [.init(key: try EntryKey("é/\"\u{2028}/e\u{301}"), version: version)], next: nil)
        #expect(try KeyPageBody.page(json: KeyPageBody.json(of: last)) == last)
    }

    @Test("A page of changes survives the way over the wire, with deletions or without any change")
    func changes() throws {
        let page = ChangePage(
            changes: [.init(key: try EntryKey("a"), version: version), .init(key: try EntryKey("b"), version: nil)],
            cursor: ChangeCursor(sequence: 2, tag: 255), hasMore: false)
        let json = try ChangePageBody.json(of: page)
        let text = #"{"changes":[{"key":"a","version":"0f"},{"key":"b"}],"#
        #expect(
            String(decoding: json, as: UTF8.self) == text + #""cursor":"2-00000000000000ff","hasMore":false}"#)
        #expect(try ChangePageBody.page(json: json) == page)
        let empty = ChangePage(changes: [], cursor: nil, hasMore: false)
        #expect(try ChangePageBody.page(json: ChangePageBody.json(of: empty)) == empty)
    }

    @Test(
        "A malformed page is an error, not an empty page",
        arguments: [
            "", "{}", "[]", "<html>", #"{"items":[{"key":"","version":"0f"}]}"#,
            #"{"items":[{"key":"a","version":""}]}"#,
            #"{"items":[{"key":"a","version":"0F"}]}"#, #"{"items":[{"key":"a"}]}"#, #"{"items":[],"next":"\u0000"}"#,
            #"{"changes":[],"hasMore":1}"#, #"{"changes":[],"hasMore":false,"cursor":"1"}"#,
            #"{"changes":[{"version":"0f"}],"hasMore":false}"#,
        ])
    func wrong(json: String) {
        for read in [{ _ = try KeyPageBody.page(json: $0) }, { _ = try ChangePageBody.page(json: $0) }]
            as [([UInt8]) throws -> Void]
        {
            let error = #expect(throws: BackendError.self) { try read(Array(json.utf8)) }
            #expect(error?.kind == .damaged)
        }
    }
}
