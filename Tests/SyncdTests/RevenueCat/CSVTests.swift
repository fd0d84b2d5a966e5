import Entitlements
import Testing

@testable import syncd

@Suite("Comma-separated values")
struct CSVTests {
    /// The records of `text`, which arrives in pieces of `size` bytes.
    private func read(_ text: String, size: Int = 1 << 20) throws -> (columns: [String], records: [[String]]) {
        var rest = Array(text.utf8)[...]
        var reader = try CSVReader {
            defer { rest = rest.dropFirst(size) }
            return Array(rest.prefix(size))
        }
        var records: [[String]] = []
        while let record = try reader.next() { records.append(record.values) }
        return (reader.columns, records)
    }

    private func refusal(of text: String) -> String? {
        do { _ = try read(text) } catch { return "\(error)" }
        return nil
    }

    @Test("Quotation marks, line ends, separators and a byte order mark are read in pieces of any size")
    func forms() throws {
        let text = "\u{FEFF}a,B,c\r\n1,\"x,\"\"y\"\"\r\nz\",3\n\n,,\r\n\"\",5\"6,\u{301}"
        for size in [1, 2, 3, 7, 1_000] {
            let (columns, records) = try read(text, size: size)
            #expect(columns == ["a", "b", "c"])
            #expect(records == [["1", "x,\"y\"\r\nz", "3"], ["", "", ""], ["", "5\"6", "\u{301}"]], "\(size)")
        }
        #expect(try read("a;b,c;d\n1;2;3\n").records == [["1", "2", "3"]])
        #expect(try read("a,b\n").records == [])
    }

    @Test("A file that is cut off, or has lines of another length, is refused with the line")
    func refusals() {
        #expect(refusal(of: "")?.contains("the file is empty") == true)
        #expect(refusal(of: "a,a\n")?.contains("two columns have the same name") == true)
        #expect(refusal(of: "a,b\n1,2\n3\n4,5\n")?.hasPrefix("line 3: 1 fields, but the first line names 2") == true)
        #expect(refusal(of: "a,b\n1,2\n3")?.contains("the last line is cut off") == true)
        #expect(refusal(of: "a,b\n1,\"2\n3,4\n")?.contains("a quotation mark is not closed") == true)
        #expect(refusal(of: "a\n" + String(repeating: "x", count: 2 << 20))?.contains("at most 1 MiB") == true)
    }

    @Test("Texts are quoted where needed, and none begins like a formula")
    func output() throws {
        let texts = ["a", "", "x,y", "say \"hi\"\u{301}", "two\r\nlines", "=1+1", "+4", "-4", "@x", "\tx", "'x", "＝1"]
        let line = CSV.line(texts)
        #expect(line.hasSuffix("\r\n"))
        let fields = try read(line + line).records[0]
        #expect(fields.allSatisfy { !["=", "+", "-", "@", "\t", "＝"].contains($0.unicodeScalars.first) })
        // Without the first apostrophe, each text is exact.
        #expect(fields.map { $0.hasPrefix("'") ? String($0.dropFirst()) : $0 } == texts)
    }
}
