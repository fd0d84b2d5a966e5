import Testing

@Suite("Imports")
struct ImportTests {
    private func found(_ path: String, _ text: String) -> [String] {
        ImportTable.design.violations(in: [SourceFile(path, text)]).map(\.description)
    }

    @Test("A module imports only modules that the import table allows")
    func repository() throws {
        let files = try Repository.current().files(in: "Sources", "Backends")
        try #require(files.contains { $0.path == "Sources/SyncCore/Contract/HostServices+System.swift" })
        let found = ImportTable.design.violations(in: files)
        #expect(found.isEmpty, "\(report(found))")
    }

    @Test("The simulation's model imports nothing, so it shares no code with the code under test")
    func model() throws {
        let files = try Repository.current().files(in: "Sources/SyncSimulation/Model")
        try #require(files.contains { $0.path.hasSuffix("/ModelReplay.swift") })
        #expect(files.flatMap(ImportTable.imports(in:)).map(\.text).isEmpty)
    }

    @Test("An upward import is found in every spelling")
    func againstTheDirection() {
        let path = "Sources/SyncCore/Engine/A.swift"
        #expect(found(path, "import Entitlements") == ["\(path):1: SyncCore may not import Entitlements"])
        #expect(found(path, "\npublic import struct Entitlements.Fact").count == 1)
        #expect(found(path, "@testable @_spi(X) internal import Entitlements").count == 1)
        #expect(found(path, "import Foundation; import Entitlements").count == 1)
        #expect(found(path, "#if canImport(X)\nimport FoundationEssentials\n#endif").isEmpty)
        #expect(found(path, "// import Entitlements\nlet a = \"import Entitlements\"; f(import: b)").isEmpty)
    }

    @Test("An import of another package is found unless the table allows it")
    func packages() {
        #expect(found("Sources/Entitlements/A.swift", "import SwiftProtobuf").count == 1)
        #expect(found("Sources/SyncCore/A.swift", "import ArgumentParser").count == 1)
        #expect(found("Sources/EntitlementSync/A.swift", "import Logging").count == 1)
        #expect(found("Sources/syncd/A.swift", "import ArgumentParser").isEmpty)
    }

    @Test("Backends import neither each other nor the domain")
    func backends() {
        #expect(found("Backends/File/A.swift", "import Entitlements").count == 1)
        #expect(found("Backends/SQLite/A.swift", "import FileStorage").count == 1)
        #expect(found("Backends/File/A.swift", "import SyncCore\nimport Checksums").isEmpty)
    }

    @Test("The imports of a row are inherited, leaves are not")
    func closure() {
        #expect(found("Sources/SyncService/A.swift", "import SyncCore\nimport HTTPTypes").isEmpty)
        #expect(found("Sources/EntitlementSync/A.swift", "import Checksums").count == 1)
        #expect(found("Sources/syncd/A.swift", "import Entitlements\nimport FileStorage").isEmpty)
        #expect(found("Sources/syncd/A.swift", "import syncsim").count == 1)
    }

    @Test("A folder without a row in the table is found")
    func unknownFolder() {
        #expect(found("Sources/Helpers/A.swift", "").count == 1)
        #expect(found("Sources/SyncCoreHelpers/A.swift", "").count == 1)
    }
}
