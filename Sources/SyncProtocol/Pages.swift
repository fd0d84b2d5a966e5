public import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The text form of a position in the sequence of changes: `17-00000000000000ff`, the number of the change and its tag.
/// It is the `after` of a request, the `cursor` of a page and the `id` of a server-sent event.
public enum CursorText {
    /// The text that a request for a page gives for the position of the latest change. The page has no changes.
    public static let latest = "latest"

    /// The text of `cursor`.
    public static func text(of cursor: ChangeCursor) -> String {
        "\(cursor.sequence)-" + Hexadecimal.text(cursor.tag)
    }

    /// The cursor that `text` represents.
    ///
    /// - Throws: `BackendError.Kind.invalidCursor` for any text that ``text(of:)`` does not produce.
    public static func cursor(_ text: String) throws(BackendError) -> ChangeCursor {
        let parts = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].count == 16, let sequence = UInt64(String(decoding: parts[0], as: UTF8.self)),
            let tag = UInt64(String(decoding: parts[1], as: UTF8.self), radix: 16)
        else { throw invalid(text) }
        let cursor = ChangeCursor(sequence: sequence, tag: tag)
        // Each cursor has one text: no sign, no leading zeros, no upper case.
        guard Self.text(of: cursor) == text else { throw invalid(text) }
        return cursor
    }

    private static func invalid(_ text: String) -> BackendError {
        BackendError(
            .invalidCursor, operation: .changes,
            message: "a cursor must be a number, a hyphen and 16 hexadecimal digits, as in a page of changes")
    }
}

/// A page of keys as JSON: `{"items":[{"key":"a","version":"0f"}],"next":"a"}`; `next` is missing on the last page.
public enum KeyPageBody {
    private struct Page: Codable {
        struct Item: Codable {
            var key: String
            var version: String
        }
        var items: [Item]
        var next: String?
    }

    /// The JSON of `page`, with members sorted by name.
    package static func json(of page: KeyPage) throws -> [UInt8] {
        try encoded(
            Page(
                items: page.items.map { Page.Item(key: $0.key.text, version: $0.version.description) },
                next: page.next?.text))
    }

    /// The page that `json` encodes.
    ///
    /// - Throws: `BackendError.Kind.damaged` if `json` is not a valid page.
    public static func page(json: [UInt8]) throws(BackendError) -> KeyPage {
        let page: Page = try decoded(json, "a page of keys")
        var items: [KeyPage.Item] = []
        for item in page.items {
            items.append(KeyPage.Item(key: try key(item.key), version: try version(item.version)))
        }
        guard let next = page.next else { return KeyPage(items: items, next: nil) }
        return KeyPage(items: items, next: try key(next))
    }
}

/// A page of changes as JSON:
/// `{"changes":[{"key":"a","version":"0f"},{"key":"b"}],"cursor":"2-00000000000000ff","hasMore":false}`. A change
/// without a version is a deletion. A store that has never changed has no cursor.
public enum ChangePageBody {
    private struct Page: Codable {
        struct Change: Codable {
            var key: String
            var version: String?
        }
        var changes: [Change]
        var cursor: String?
        var hasMore: Bool
    }

    /// The JSON of one change, as in an event: `{"key":"a","version":"0f"}`.
    package static func json(of change: ChangePage.Change) -> [UInt8] {
        // Encoding two strings cannot fail.
        (try? encoded(Page.Change(key: change.key.text, version: change.version?.description))) ?? Array("{}".utf8)
    }

    /// The JSON of `page`, with members sorted by name.
    package static func json(of page: ChangePage) throws -> [UInt8] {
        try encoded(
            Page(
                changes: page.changes.map { Page.Change(key: $0.key.text, version: $0.version?.description) },
                cursor: page.cursor.map { CursorText.text(of: $0) }, hasMore: page.hasMore))
    }

    /// The page that `json` encodes.
    ///
    /// - Throws: `BackendError.Kind.damaged` if `json` is not a valid page.
    public static func page(json: [UInt8]) throws(BackendError) -> ChangePage {
        let page: Page = try decoded(json, "a page of changes")
        var changes: [ChangePage.Change] = []
        for change in page.changes {
            var known: EntryVersion?
            if let text = change.version { known = try version(text) }
            changes.append(ChangePage.Change(key: try key(change.key), version: known))
        }
        var read = ChangePage(changes: changes, cursor: nil, hasMore: page.hasMore)
        if let text = page.cursor {
            do throws(BackendError) {
                read.cursor = try CursorText.cursor(text)
            } catch {
                throw damaged("an answer has an invalid cursor: \(error.message)")
            }
        }
        return read
    }
}

private func encoded(_ page: some Encodable) throws -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return Array(try encoder.encode(page))
}

private func decoded<Page: Decodable>(_ json: [UInt8], _ what: String) throws(BackendError) -> Page {
    do {
        return try JSONDecoder().decode(Page.self, from: Data(json))
    } catch {
        throw BackendError(.damaged, message: "the answer is not \(what); is this the right server?", cause: error)
    }
}

private func key(_ text: String) throws(BackendError) -> EntryKey {
    do throws(BackendError) {
        return try EntryKey(text)
    } catch {
        throw damaged("an answer has an invalid key: \(error.message)")
    }
}

private func version(_ text: String) throws(BackendError) -> EntryVersion {
    guard let version = EntityTag(text: text, isWeak: false).version else {
        throw damaged("an answer has an invalid version")
    }
    return version
}

private func damaged(_ reason: String) -> BackendError {
    BackendError(.damaged, message: "\(reason); is this the right server?")
}
