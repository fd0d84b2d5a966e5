import Entitlements
import ParseFacade
import SyncService
import Testing

@Suite("Reading an export")
struct ExportReaderTests {
    /// Reads `text`, of which each piece has `size` bytes.
    private func read(_ text: String, size: Int = 1 << 20) throws -> [ExportReader.Object] {
        var rest = Array(text.utf8)[...]
        var reader = ExportReader {
            defer { rest = rest.dropFirst(size) }
            return Array(rest.prefix(size))
        }
        var objects: [ExportReader.Object] = []
        while let object = try reader.next() { objects.append(object) }
        #expect(try reader.next() == nil && reader.byteCount == text.utf8.count)
        return objects
    }

    @Test(
        "Lines, an array and the results of parse.com are the same, wherever the pieces end",
        arguments: [
            "{\"a\":\"}]\\\"{\"}\n{\"b\":{\"c\":[1,{}]}}\n{\"d\":\"é\"}\n",
            "\u{FEFF}\r\n\n{\"a\":\"}]\\\"{\"}\r\n \n{\"b\":{\"c\":[1,{}]}}\n{\"d\":\"é\"}",
            "[{\"a\":\"}]\\\"{\"},\n{\"b\":{\"c\":[1,{}]}}\n, {\"d\":\"é\"}]",
            " [ {\"a\":\"}]\\\"{\"} ,{\"b\":{\n\"c\":[1,{}]}},{\"d\":\"é\"}\n]\n\n",
            "{ \"results\" : [\n\t{\"a\":\"}]\\\"{\"},\n{\"b\":{\"c\":[1,{}]}},{\"d\":\"é\"}\n] }\n",
        ])
    func forms(text: String) throws {
        let right = try ["{\"a\":\"}]\\\"{\"}", "{\"b\":{\"c\":[1,{}]}}", "{\"d\":\"é\"}"].map {
            try JSON(parsing: $0.utf8)
        }
        for size in [1, 2, 3, 7, 1_000] { #expect(try read(text, size: size).map(\.value) == right, "\(size)") }
    }

    @Test("Each object has its line, and an empty export has none")
    func lines() throws {
        #expect(try read("{}\n\n{}\n{}").map(\.line) == [1, 3, 4])
        #expect(try read("[\n{},\n{\n},\n\n{}]").map(\.line) == [2, 3, 6])
        #expect(try read("{\"results\":\n[{},\n{}]}").map(\.line) == [2, 3])
        for text in ["", "\n", "[]", " [ ]\n", "{\"results\":[]}"] { #expect(try read(text).isEmpty, "\(text)") }
        // An object that only looks like the results of parse.com.
        #expect(try read("{\"results\":{}}\n{\"results\": 1}").count == 2)
    }

    @Test(
        "A file that is cut off or no export is refused, and the line is named",
        arguments: [
            ("{}\n{}\n{\"a\":1", "line 3, column", "the last line is cut off"),
            ("{}\n{\"a\":\"x", "line 2, column", "cut off"), ("{}\n{\"a\":\n1}\n{}", "line 2, column", "--pretty"),
            ("[{},\n{\"a\":1", "line 2", "cut off"), ("[{},\n", "line 2", "cut off"), ("[{}", "line 1", "cut off"),
            ("{\"results\":[{}\n]", "line 2", "cut off"), ("{\"results\":[{}],\"x\":1}", "line 1", "}"),
            ("[{}]\n{}", "line 2", "nothing is expected"), ("[{} {}]", "line 1", "a comma"),
            ("[1]", "line 1", "an object"), ("[{},]", "line 1", "an object"), ("{}\n[]\n{}", "line 2", "an object"),
            ("\nusername,id\n", "line 2", "JSON is expected"), ("\u{1}\u{0}{}", "line 1", "JSON is expected"),
            ("[{},\n{\"a\":01}]", "line 2, column", ""), ("{\"a\":1,\"a\":2}\n{}", "line 1, column", ""),
        ])
    func errors(text: String, place: String, reason: String) throws {
        for size in [1, 1_000] {
            let error = #expect(throws: InputError.self) { try read(text, size: size) }
            #expect(error?.path.hasPrefix(place) == true, "\(text): \(error?.description ?? "")")
            #expect(reason.isEmpty || error?.reason.contains(reason) == true, "\(text): \(error?.description ?? "")")
        }
    }

    @Test("The memory does not grow with the file")
    func memory() throws {
        let line = Array(("{\"a\":\"" + String(repeating: "x", count: 1_000) + "\"}\n").utf8)
        let piece = Array((0..<16).flatMap { _ in line }.dropLast(500))
        var pieces = 200
        var reader = ExportReader {
            pieces -= 1
            // The rest of a line is the beginning of the next piece.
            return pieces == 199 ? piece : pieces < 0 ? [] : Array(line.suffix(500)) + piece
        }
        var (count, largest) = (0, 0)
        do {
            while try reader.next() != nil { (count, largest) = (count + 1, max(largest, reader.bufferedByteCount)) }
        } catch let error as InputError { #expect(error.reason.contains("cut off")) }
        #expect(count == 200 * 16 - 1 && largest < 3 * piece.count)
    }
}
