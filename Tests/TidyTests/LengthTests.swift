import Testing

@Suite("Lengths")
struct LengthTests {
    private func lines(_ count: Int, of line: String = "x") -> String {
        Array(repeating: line + "\n", count: count).joined()
    }

    private func spans(_ text: String) -> [FunctionSpan] {
        FunctionSpan.all(in: SwiftTokens.of(text))
    }

    @Test("A file has at most 600 lines")
    func files() throws {
        let found = Lengths.longFiles(in: try Repository.current().swiftFiles)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("A function has at most 80 lines")
    func functions() throws {
        let found = Lengths.longFunctions(in: try Repository.current().swiftFiles)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("A line has at most 120 characters")
    func lines() throws {
        let found = Lengths.longLines(in: try Repository.current().swiftFiles)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("A file of 601 lines is found, one of 600 and a generated one are not")
    func longFile() {
        #expect(Lengths.longFiles(in: [SourceFile("a.swift", lines(601))]).count == 1)
        #expect(Lengths.longFiles(in: [SourceFile("a.swift", lines(601).dropLastNewline)]).count == 1)
        #expect(Lengths.longFiles(in: [SourceFile("a.swift", lines(600))]).isEmpty)
        #expect(Lengths.longFiles(in: [SourceFile("a.pb.swift", lines(601))]).isEmpty)
    }

    @Test("A line of 121 characters is found, one of 120 is not")
    func longLine() {
        let text = String(repeating: "é", count: 120) + "\n" + String(repeating: "x", count: 121)
        #expect(Lengths.longLines(in: [SourceFile("a.swift", text)]).map(\.line) == [2])
    }

    @Test("A function of 81 lines is found, one of 80 is not")
    func longFunction() {
        let short = "func f() {\n\(lines(78))}\n"
        let long = "init(x: Int) {\n\(lines(79))}\n"
        let found = Lengths.longFunctions(in: [SourceFile("a.swift", short + long)])
        #expect(found.map(\.description) == ["a.swift:81: init has 81 lines, 80 at most"])
    }

    @Test("A body ends at its closing brace")
    func nesting() {
        let text = "func f(a: () -> Void = { g() }) {\n if a { b }\n func inner() {\n }\n}\nlet x = 1\n"
        #expect(
            spans(text) == [
                FunctionSpan(name: "f", firstLine: 1, lastLine: 5),
                FunctionSpan(name: "inner", firstLine: 3, lastLine: 4),
            ])
    }

    @Test("Operators, initializers, subscripts and computed properties are measured")
    func kinds() {
        let text = """
            static func == (a: A, b: A) -> Bool {
            }
            init?<T>(_ t: T) where T.A == Int {
            }
            subscript(i: Int) -> Int {
            }
            var x: [Int: (Int) -> Int] {
            }
            deinit {
            }
            """
        #expect(spans(text).map(\.name) == ["=", "init", "subscript", "x", "deinit"])
        #expect(spans(text).allSatisfy { $0.lineCount == 2 })
    }

    @Test("Requirements, stored properties and calls have no body")
    func bodiless() {
        let text = """
            protocol P {
                func f() async throws(E) -> Int
                init(a: Int)
            }
            struct S {
                var a: Int
                var b: Int = { 1 }()
                func g() { self.init(a: 1); if let a { } }
            }
            """
        #expect(spans(text).map(\.name) == ["g"])
    }
}

extension String {
    fileprivate var dropLastNewline: String { String(dropLast()) }
}
