/// The folder of each module and the imports it is allowed.
///
/// A module may also import the imports of the modules in its row, because `MemberImportVisibility` requires an import
/// of every module whose members are used. Leaves are not inherited: each module that uses a leaf lists it.
struct ImportTable {
    struct Row {
        let module: String
        let folder: String
        /// Modules of this package.
        var imports: [String] = []
        /// Modules of this package that importers of this module do not inherit.
        var leaves: [String] = []
        /// Modules of other packages, and modules that exist on one platform only.
        var packages: [String] = []
    }

    let rows: [Row]

    /// Modules of the toolchain, which any module may import.
    static let systemModules: Set = [
        "FoundationEssentials", "Foundation", "Dispatch", "Synchronization", "Observation",
        "Darwin", "Glibc", "Musl", "Android", "WASILibc", "ucrt",
    ]

    static let design = ImportTable(
        rows: libraries + [
            Row(
                module: "syncd", folder: "Sources/syncd", imports: libraries.map(\.module),
                packages: [
                    "ArgumentParser", "Configuration", "HTTPTypes", "Logging", "ServiceLifecycle", "UnixSignals",
                ]),
            Row(
                module: "syncsim", folder: "Sources/syncsim", imports: libraries.map(\.module),
                packages: ["ArgumentParser"]),
        ])

    private static let libraries = [
        Row(module: "Checksums", folder: "Sources/Checksums"),
        Row(module: "ProtoCoding", folder: "Sources/ProtoCoding"),
        Row(module: "Entitlements", folder: "Sources/Entitlements", leaves: ["Checksums", "ProtoCoding"]),
        Row(module: "SyncCore", folder: "Sources/SyncCore", leaves: ["Checksums"]),
        Row(module: "EntitlementSync", folder: "Sources/EntitlementSync", imports: ["Entitlements", "SyncCore"]),
        Row(
            module: "EntitlementSyncEvidence", folder: "Sources/EntitlementSyncEvidence",
            imports: ["EntitlementSync"], packages: ["X509", "SwiftASN1", "Crypto", "CryptoExtras"]),
        Row(
            module: "EntitlementSyncStoreKit", folder: "Sources/EntitlementSyncStoreKit",
            imports: ["EntitlementSync"], packages: ["StoreKit"]),
        Row(
            module: "EntitlementKit", folder: "Sources/EntitlementKit",
            imports: ["EntitlementSyncStoreKit", "FileStorage", "HTTPStorage", "CurlTransport", "URLSessionTransport"],
            packages: ["Security", "StoreKit"]),
        Row(
            module: "SyncProtocol", folder: "Sources/SyncProtocol", imports: ["SyncCore"], leaves: ["ProtoCoding"],
            packages: ["HTTPTypes"]),
        Row(
            module: "SyncService", folder: "Sources/SyncService",
            imports: ["EntitlementSync", "StoreEvidence", "SyncProtocol", "WrittenDates"]),
        Row(module: "WrittenDates", folder: "Sources/WrittenDates", imports: ["Entitlements"]),
        Row(module: "ParseFacade", folder: "Sources/ParseFacade", imports: ["SyncService"]),
        Row(
            module: "SyncServer", folder: "Sources/SyncServer", imports: ["SyncService"],
            packages: [
                "CCrypt", "HummingbirdCore", "NIOCore", "NIOHTTP1", "NIOHTTP2", "NIOHTTPTypes", "NIOHTTPTypesHTTP1",
                "NIOHTTPTypesHTTP2", "NIOPosix", "NIOSSL", "ServiceLifecycle", "UnixSignals", "JWTKit", "Crypto",
                "CryptoExtras", "Logging", "CoreMetrics",
            ]),
        Row(
            module: "SyncAgent", folder: "Sources/SyncAgent", imports: ["HTTPStorage", "SyncServer"],
            leaves: ["Checksums"],
            packages: [
                "CLinux", "HTTPTypes", "Logging", "ServiceLifecycle", "Subprocess", "System", "SystemPackage",
                "UnixSignals",
            ]),
        Row(
            module: "StoreEvidence", folder: "Sources/StoreEvidence", imports: ["Entitlements"],
            packages: ["X509", "SwiftASN1", "Crypto", "CryptoExtras"]),
        Row(
            module: "FileStorage", folder: "Backends/File", imports: ["SyncCore"],
            leaves: ["Checksums", "FileWatching"]),
        Row(module: "FileWatching", folder: "Sources/FileWatching"),
        Row(
            module: "SQLiteStorage", folder: "Backends/SQLite", imports: ["SyncCore"],
            leaves: ["Checksums", "FileWatching"], packages: ["GRDB", "GRDBSQLite"]),
        Row(
            module: "SQLiteRecovery", folder: "Backends/SQLiteRecovery", imports: ["SQLiteStorage"]),
        Row(
            module: "HTTPStorage", folder: "Backends/HTTP",
            imports: ["SyncCore", "SyncProtocol", "CurlTransport"]),
        Row(
            module: "WebDAVStorage", folder: "Backends/WebDAV", imports: ["SyncCore", "SyncProtocol"],
            leaves: ["Checksums"]),
        Row(
            module: "UbiquitousStorage", folder: "Backends/Ubiquitous", imports: ["SyncCore"],
            leaves: ["Checksums"]),
        Row(
            module: "CurlTransport", folder: "Backends/Curl", imports: ["SyncCore", "SyncProtocol"],
            packages: ["CCurl"]),
        Row(
            module: "URLSessionTransport", folder: "Backends/URLSession", imports: ["SyncProtocol"],
            packages: ["FoundationNetworking"]),
        Row(module: "SealedStorage", folder: "Backends/Sealed", imports: ["SyncCore"], packages: ["Crypto"]),
        Row(
            module: "ObservedStorage", folder: "Backends/Observed", imports: ["SyncCore"],
            packages: ["Logging", "Metrics", "Tracing"]),
        Row(
            module: "PostgreSQLStorage", folder: "Backends/PostgreSQL", imports: ["SyncCore"], packages: ["CPQ"]),
        Row(module: "SyncCoreTesting", folder: "Sources/SyncCoreTesting", imports: ["SyncCore"]),
        Row(
            module: "SyncSimulation", folder: "Sources/SyncSimulation",
            imports: ["EntitlementSync", "SyncService", "HTTPStorage", "FileStorage", "SyncCoreTesting"]),
    ]

    /// The row of the module that contains the file at `path`.
    func row(forPath path: String) -> Row? {
        rows.first { path.hasPrefix($0.folder + "/") }
    }

    /// All modules that the module of `row` may import.
    func allowedModules(for row: Row) -> Set<String> {
        inherited(by: row).union(row.leaves).union(Self.systemModules)
    }

    private func inherited(by row: Row) -> Set<String> {
        var modules = Set(row.imports + row.packages)
        for name in row.imports {
            if let next = rows.first(where: { $0.module == name }) { modules.formUnion(inherited(by: next)) }
        }
        return modules
    }

    /// The imports in `files` that the table does not allow, and the files in folders that it does not list.
    func violations(in files: [SourceFile]) -> [Violation] {
        files.flatMap { file -> [Violation] in
            guard let row = row(forPath: file.path) else {
                return [Violation(path: file.path, line: 1, message: "the import table has no row for this folder")]
            }
            let allowed = allowedModules(for: row)
            return Self.imports(in: file).filter { !allowed.contains($0.text) }.map { module in
                Violation(
                    path: file.path, line: module.line, message: "\(row.module) may not import \(module.text)")
            }
        }
    }

    /// The modules that `file` imports, with their lines.
    static func imports(in file: SourceFile) -> [Token] {
        let kinds: Set = ["typealias", "struct", "class", "enum", "protocol", "let", "var", "func"]
        let tokens = file.tokens
        return tokens.indices.compactMap { index in
            guard tokens[index].text == "import", index == 0 || tokens[index - 1].text != "." else { return nil }
            let following = tokens[(index + 1)...].drop { kinds.contains($0.text) }
            // `import:` is an argument label.
            guard let module = following.first, module.text != ":" else { return nil }
            return module
        }
    }
}
