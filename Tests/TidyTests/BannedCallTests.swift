import Testing

@Suite("Banned calls")
struct BannedCallTests {
    private func found(_ text: String, at path: String = "Sources/SyncCore/A.swift") -> [String] {
        BannedCall.violations(of: BannedCall.inProduct, in: [SourceFile(path, text)]).map(\.description)
    }

    private func foundInTest(_ text: String) -> Int {
        BannedCall.violations(of: BannedCall.inTests, in: [SourceFile("Tests/A/A.swift", text)]).count
    }

    @Test("Sources and backends neither read clocks, make ids or start tasks themselves, nor trap")
    func product() throws {
        let files = try Repository.current().files(in: "Sources", "Backends")
        let found = BannedCall.violations(of: BannedCall.inProduct, in: files)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("Tests neither sleep, trap, nor leak pipes into child processes")
    func tests() throws {
        let files = try Repository.current().files(in: "Tests")
        try #require(files.contains { $0.path.hasSuffix("BannedCallTests.swift") })
        let found = BannedCall.violations(of: BannedCall.inTests, in: files)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("No file contains a mark of unfinished work")
    func leftovers() throws {
        let repository = try Repository.current()
        let texts = repository.swiftFiles.map { ($0.path, $0.text) } + repository.documents.map { ($0.key, $0.value) }
        let found = texts.flatMap { path, text in Leftovers.violations(inText: text, at: path) }
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test(
        "Each banned spelling is found",
        arguments: [
            "let d = Date()", "let d = Date.init( )", "let d: Date = .now", "f(at: Date.now)", "f(.now)",
            "Date(timeIntervalSinceNow: 3)", "clock_gettime(a, &b)", "UUID().uuidString", "UUID.init()",
            "SystemRandomNumberGenerator()", "try! f()", "Task { f() }", "Task{ f() }", "Task(priority: .low) { f() }",
            "Task<Void, Never> { f() }", "Task.detached { f() }", "Task.init { f() }", "Task.immediate { f() }",
            "let g: (DispatchQueue) -> Void", "fatalError(\"x\")", "Swift.fatalError()",
            "Thread.sleep(forTimeInterval: 1)", "try await Task.sleep(for: .seconds(1))",
            "try await Task<Never, Never>.sleep(for: d)", "usleep(3)", "sleep(1)", "Glibc.sleep(1)",
            "struct A: @unchecked Sendable {}", "x as! Int", "print(x)", "Swift.print(x)",
            "debugPrint(x)", "\"\\(Date())\"", "f {\n  Date(\n  )\n}",
        ])
    func spellings(code: String) {
        #expect(found(code).count == 1)
    }

    @Test(
        "Similar spellings pass",
        arguments: [
            "// Date() print(x)", "/* Task { } */", "let a = \"try! UUID()\"", "Date(timeIntervalSince1970: 0)",
            "host.now()", "clock.now", "try !done", "Task.isCancelled", "Task.checkCancellation()",
            "var task: Task<Void, Never>?", "func start() -> Task<Void, Never> {", "extension Task {",
            "timer.sleep(for: d)", "func sleep(for d: Duration) {", "printer.print(x)", "func print(_ x: Int) {",
            "withTaskGroup(of: Int.self) { }", "x as? Int", "UUID(uuidString: s)", "struct A: Sendable {}",
        ])
    func lookalikes(code: String) {
        #expect(found(code).isEmpty)
    }

    @Test("A violation names its place and the replacement")
    func wording() {
        #expect(found("a\nb UUID()") == ["Sources/SyncCore/A.swift:2: UUID(): make ids from the bits of HostServices"])
    }

    @Test("Only HostServices reads the clock and only executables print")
    func exemptions() {
        #expect(found("Date()", at: "Sources/SyncCore/Contract/HostServices+System.swift").isEmpty)
        #expect(found("UUID()", at: "Sources/SyncCore/Contract/HostServices+System.swift").count == 1)
        #expect(found("print(1)", at: "Sources/syncd/Main.swift").isEmpty)
        #expect(found("print(1)", at: "Sources/syncsim/Main.swift").isEmpty)
        #expect(found("print(1)", at: "Sources/syncdHelpers/A.swift").count == 1)
        #expect(found("Date()", at: "Sources/syncd/Main.swift").count == 1)
    }

    @Test("A test may read the clock but may not sleep or trap")
    func inTests() {
        #expect(foundInTest("Date(); print(1)") == 0)
        #expect(foundInTest("try! f(); Task.sleep(for: d); sleep(1); usleep(1); Thread.sleep(forTimeInterval: 1)") == 5)
        #expect(foundInTest("let (a, b) = (Pipe(), Pipe.closedOnExec()); process.waitUntilExit()") == 2)
    }

    @Test("A mark of unfinished work is found in comments and prose")
    func marks() {
        let mark = "TO" + "DO"
        #expect(Leftovers.violations(inText: "a\n// \(mark): b", at: "a.swift").map(\.line) == [2])
        #expect(Leftovers.violations(inText: "FIX" + "ME later", at: "a.md").count == 1)
        #expect(Leftovers.violations(inText: "the \(mark)ist and a todo list", at: "a.md").isEmpty)
    }
}
