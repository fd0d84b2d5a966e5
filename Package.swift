// swift-tools-version: 6.2
import PackageDescription

/// The packages of the products that targets use.
let packages = [
    "ArgumentParser": "swift-argument-parser",
    "Crypto": "swift-crypto", "CryptoExtras": "swift-crypto", "GRDB": "GRDB.swift", "GRDBSQLite": "GRDB.swift",
    "HTTPTypes": "swift-http-types", "HummingbirdCore": "hummingbird", "InMemoryTracing": "swift-distributed-tracing",
    "Logging": "swift-log", "Metrics": "swift-metrics", "MetricsTestKit": "swift-metrics",
    "NIOCore": "swift-nio", "NIOEmbedded": "swift-nio", "NIOHTTP1": "swift-nio", "NIOHTTP2": "swift-nio-http2",
    "NIOHTTPTypes": "swift-nio-extras", "NIOHTTPTypesHTTP1": "swift-nio-extras",
    "NIOHTTPTypesHTTP2": "swift-nio-extras", "NIOPosix": "swift-nio", "NIOSSL": "swift-nio-ssl",
    "ServiceLifecycle": "swift-service-lifecycle", "Subprocess": "swift-subprocess", "SwiftASN1": "swift-asn1",
    "Tracing": "swift-distributed-tracing", "UnixSignals": "swift-service-lifecycle", "X509": "swift-certificates",
]

/// Dependencies on targets of this package and on products of others, by their names.
///
/// - Parameters:
///   - trait: the trait that a target needs to depend on them; `nil` for none.
///   - platforms: the platforms on which it depends on them; `nil` for all.
func on(_ names: String..., trait: String? = nil, platforms: [Platform]? = nil) -> [Target.Dependency] {
    let condition: TargetDependencyCondition? =
        if let trait { .when(traits: [trait]) } else if let platforms { .when(platforms: platforms) } else { nil }
    return names.map { name in
        packages[name].map { .product(name: name, package: $0, condition: condition) }
            ?? .target(name: name, condition: condition)
    }
}

/// Tests. All of them may use `TestSupport`, `SyncCore` and `SyncCoreTesting`.
func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: on("TestSupport", "SyncCore", "SyncCoreTesting") + dependencies)
}

/// A program that measures.
func benchmark(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(
        name: name, dependencies: on("BenchmarkSupport") + dependencies, path: "Benchmarks/Sources/\(name)")
}

// The products. Executables are not among them, so an app never fetches the packages that only they use.
let libraries = [
    "Entitlements", "SyncCore", "EntitlementSync", "EntitlementSyncEvidence", "EntitlementSyncStoreKit", "FileStorage",
    "SealedStorage", "ObservedStorage", "SQLiteStorage", "SQLiteRecovery", "PostgreSQLStorage", "SyncProtocol",
    "HTTPStorage", "WebDAVStorage", "UbiquitousStorage", "CurlTransport", "URLSessionTransport", "EntitlementKit",
    "SyncCoreTesting", "SyncSimulation",
]

let core: [Target] = [
    .target(name: "Checksums"),
    .target(name: "ProtoCoding"),
    .target(name: "Entitlements", dependencies: on("Checksums", "ProtoCoding")),
    .target(name: "SyncCore", dependencies: on("Checksums")),
    .target(name: "EntitlementSync", dependencies: on("Entitlements", "SyncCore")),
    .target(name: "EntitlementSyncStoreKit", dependencies: on("EntitlementSync", "Entitlements", "SyncCore")),
    .target(
        name: "StoreEvidence", dependencies: on("Entitlements", "X509", "SwiftASN1", "Crypto", "CryptoExtras")),
    // It compiles the sources of StoreEvidence through a symbolic link. SwiftPM leaves out the packages of a product
    // only if its own targets name them behind a trait, and the server needs StoreEvidence without one.
    .target(
        name: "EntitlementSyncEvidence",
        dependencies: on("EntitlementSync", "Entitlements", "SyncCore")
            + on("X509", "SwiftASN1", "Crypto", "CryptoExtras", trait: "Evidence")),
    .target(
        name: "EntitlementKit",
        dependencies: on(
            "EntitlementSync", "EntitlementSyncStoreKit", "Entitlements", "FileStorage", "HTTPStorage", "SyncCore",
            "SyncProtocol")
            + on("CurlTransport", platforms: [.linux])
            + on("URLSessionTransport", platforms: [.macOS, .iOS, .tvOS, .watchOS, .visionOS, .macCatalyst])),
    // The rules for expiry dates that old apps write.
    .target(name: "WrittenDates", dependencies: on("Entitlements")),
    .target(name: "SyncProtocol", dependencies: on("ProtoCoding", "SyncCore", "HTTPTypes")),
    .target(name: "SyncCoreTesting", dependencies: on("SyncCore")),
    .target(
        name: "SyncSimulation",
        dependencies: on("Entitlements", "SyncCore", "EntitlementSync", "SyncCoreTesting")
            + on("WrittenDates", trait: "Parse")),
]

let backends: [Target] = [
    .target(name: "FileWatching"),
    .target(
        name: "FileStorage", dependencies: on("Checksums", "FileWatching", "SyncCore"), path: "Backends/File"),
    .target(
        name: "SQLiteStorage", dependencies: on("Checksums", "FileWatching", "SyncCore", "GRDB", "GRDBSQLite"),
        path: "Backends/SQLite"),
    .target(
        name: "SQLiteRecovery", dependencies: on("SQLiteStorage", "SyncCore"), path: "Backends/SQLiteRecovery"),
    .systemLibrary(name: "CPQ", path: "Backends/PostgreSQL/CPQ", pkgConfig: "libpq"),
    .target(
        name: "PostgreSQLStorage", dependencies: on("SyncCore") + on("CPQ", trait: "PostgreSQL"),
        path: "Backends/PostgreSQL", exclude: ["CPQ"]),
    .target(
        name: "SealedStorage", dependencies: on("SyncCore") + on("Crypto", trait: "Sealed"), path: "Backends/Sealed"),
    .target(
        name: "ObservedStorage", dependencies: on("SyncCore") + on("Logging", "Metrics", "Tracing", trait: "Observed"),
        path: "Backends/Observed"),
    .target(
        name: "HTTPStorage",
        dependencies: on("EntitlementSync", "Entitlements", "SyncCore", "SyncProtocol", "HTTPTypes"),
        path: "Backends/HTTP"),
    .systemLibrary(name: "CCurl", path: "Backends/Curl/CCurl", pkgConfig: "libcurl"),
    .target(
        name: "CurlTransport", dependencies: on("CCurl", "SyncProtocol", "HTTPTypes"), path: "Backends/Curl",
        exclude: ["CCurl"]),
    .target(name: "URLSessionTransport", dependencies: on("SyncProtocol", "HTTPTypes"), path: "Backends/URLSession"),
    .target(
        name: "WebDAVStorage", dependencies: on("Checksums", "SyncCore", "SyncProtocol", "HTTPTypes"),
        path: "Backends/WebDAV"),
    .target(name: "UbiquitousStorage", dependencies: on("Checksums", "SyncCore"), path: "Backends/Ubiquitous"),
]

let server: [Target] = [
    .target(
        name: "SyncService",
        dependencies: on(
            "Entitlements", "EntitlementSync", "StoreEvidence", "SyncCore", "SyncProtocol", "Crypto", "HTTPTypes")),
    .target(
        name: "ParseFacade",
        dependencies: on(
            "Entitlements", "EntitlementSync", "SyncCore", "SyncProtocol", "SyncService", "WrittenDates", "HTTPTypes")),
    // The databases of projections.
    .target(
        name: "ProjectionStorage",
        dependencies: on("PostgreSQLStorage", "SQLiteStorage", "SyncCore", "SyncService", "GRDB")),
    // Debian's libcrypt, for imported password hashes.
    .systemLibrary(name: "CCrypt", path: "Sources/SyncServer/CCrypt", pkgConfig: "libcrypt"),
    .target(
        name: "SyncServer",
        dependencies: on(
            "Entitlements", "SyncCore", "SyncProtocol", "SyncService", "CServerPages", "HummingbirdCore", "NIOCore",
            "NIOHTTP1", "NIOHTTPTypes", "NIOHTTPTypesHTTP1", "NIOPosix", "ServiceLifecycle", "UnixSignals",
            "Crypto", "CryptoExtras", "HTTPTypes", "Logging")
            + on("NIOHTTP2", "NIOHTTPTypesHTTP2", "NIOSSL", trait: "TLS")
            + on("CCrypt", platforms: [.linux]),
        exclude: ["CCrypt", "CServerPages", "Resources"]),
    // Embeds Resources/. As an array literal, which `embedInCode` generates, the compiler takes seconds for it.
    .target(name: "CServerPages", path: "Sources/SyncServer/CServerPages"),
    // The headers of Linux that Swift's Glibc module leaves out.
    .systemLibrary(name: "CLinux", path: "Sources/SyncAgent/CLinux"),
    .target(
        name: "SyncAgent",
        dependencies: on(
            "Checksums", "Entitlements", "EntitlementSync", "HTTPStorage", "StoreEvidence", "SyncCore", "SyncProtocol",
            "SyncServer", "SyncService", "HTTPTypes", "Logging", "ServiceLifecycle", "Subprocess")
            + on("CLinux", platforms: [.linux]),
        exclude: ["CLinux"]),
    .executableTarget(
        name: "syncd",
        dependencies: on(
            "Entitlements", "SyncCore", "EntitlementSync", "FileStorage", "SQLiteRecovery", "SQLiteStorage",
            "HTTPStorage", "CurlTransport", "WebDAVStorage", "Checksums", "StoreEvidence", "SyncProtocol",
            "PostgreSQLStorage", "ProjectionStorage", "SyncAgent", "SyncServer", "SyncService", "ArgumentParser",
            "Crypto", "HTTPTypes",
            "Logging", "ServiceLifecycle", "UnixSignals")
            + on("ParseFacade", trait: "Parse"),
        resources: [.embedInCode("Resources/insomniowl.json")]),
    // The service under simulation. No product: SyncSimulation is one, and does not import the service.
    .target(
        name: "ServiceSimulation",
        dependencies: on(
            "Entitlements", "EntitlementSync", "HTTPStorage", "ProjectionStorage", "StoreEvidence", "SyncCore",
            "SyncCoreTesting", "SyncProtocol", "SyncService", "SyncSimulation", "Crypto", "HTTPTypes")),
    .executableTarget(
        name: "syncsim",
        dependencies: on(
            "Entitlements", "FileStorage", "SQLiteStorage", "SealedStorage", "ServiceSimulation", "SyncCore",
            "SyncCoreTesting", "SyncSimulation", "ArgumentParser"),
        resources: [.embedInCode("Resources/diagram.html")]),
]

// A test target whose module is behind a trait is empty without the trait.
let testTargets: [Target] = [
    tests("PackageTests", on("syncd")),
    tests("ReadmeTests", on("EntitlementKit", "Entitlements", "EntitlementSync", "GettingStarted", "syncd")),
    tests("SyncCoreTests", on("FileStorage")),
    tests("FileWatchingTests", on("FileWatching")),
    tests("ConformanceTests", on("FileStorage", "JournalStore", "SQLiteStorage", "StoreProbe")),
    tests("FileStorageTests", on("Checksums", "FileStorage", "FileWatching", "StoreProbe")),
    tests(
        "SQLiteStorageTests",
        on("Checksums", "FileWatching", "SQLiteRecovery", "SQLiteStorage", "StoreProbe", "GRDB")),
    tests(
        "PostgreSQLStorageTests",
        on(
            "CurlTransport", "HTTPStorage", "PostgreSQLStorage", "PostgreSQLTestSupport", "StoreProbe", "SyncProtocol",
            "syncd", "HTTPTypes")),
    tests("SealedStorageTests", on("FileStorage", "SQLiteStorage", "SealedStorage")),
    tests(
        "ObservedStorageTests",
        on("ObservedStorage") + on("Logging", "MetricsTestKit", "InMemoryTracing", trait: "Observed")),
    tests("UbiquitousStorageTests", on("EntitlementSync", "Entitlements", "UbiquitousStorage")),
    tests(
        "WebDAVStorageTests",
        on(
            "CurlTransport", "Entitlements", "EntitlementSync", "ServiceTestSupport", "SyncProtocol", "WebDAVStorage",
            "HTTPTypes")),
    tests("TransportTests", on("CurlTransport", "SyncProtocol", "URLSessionTransport", "HTTPTypes")),
    tests("SyncProtocolTests", on("SyncProtocol", "HTTPTypes")),
    tests(
        "HTTPStorageTests",
        on("HTTPStorage", "ServiceTestSupport", "StoreProbe", "SyncProtocol", "SyncService", "HTTPTypes")),
    tests("EntitlementsTests", on("Entitlements", "Checksums", "EntitlementsTestSupport")),
    tests("ReconciliationTests", on("Entitlements", "EntitlementSync", "EntitlementsTestSupport")),
    tests("EntitlementSyncTests", on("Entitlements", "EntitlementSync", "EntitlementSyncStoreKit", "FileStorage")),
    tests(
        "EntitlementSyncEvidenceTests",
        on("EntitlementSync", "EntitlementSyncEvidence", "Entitlements", "EvidenceTestSupport", "FileStorage")),
    tests(
        "EntitlementKitTests",
        on(
            "EntitlementKit", "EntitlementSync", "EntitlementSyncStoreKit", "Entitlements", "HTTPStorage",
            "ServiceTestSupport", "SyncService", "syncd", "HTTPTypes", "Crypto")),
    tests(
        "ProjectionStorageTests",
        on(
            "CurlTransport", "Entitlements", "EntitlementsTestSupport", "EntitlementSync", "HTTPStorage",
            "PostgreSQLStorage", "PostgreSQLTestSupport", "ProjectionStorage", "ServiceTestSupport", "SyncProtocol",
            "SyncService", "syncd", "HTTPTypes", "GRDB")),
    tests(
        "StoreEvidenceTests",
        on(
            "Entitlements", "EvidenceTestSupport", "StoreEvidence", "X509", "SwiftASN1", "Crypto", "CryptoExtras")),
    tests(
        "SyncServiceTests",
        on(
            "Entitlements", "EntitlementSync", "EntitlementsTestSupport", "EvidenceTestSupport", "HTTPStorage",
            "ServiceTestSupport", "StoreEvidence", "SyncProtocol", "SyncService", "HTTPTypes")),
    tests(
        "ParseFacadeTests",
        on(
            "CurlTransport", "EntitlementSync", "Entitlements", "EvidenceTestSupport", "ParseFacade",
            "ServiceTestSupport", "StoreEvidence", "SyncProtocol", "SyncServer", "SyncService", "WrittenDates", "syncd",
            "HTTPTypes")),
    tests(
        "SyncServerTests",
        on(
            "Checksums", "Entitlements", "LoadTesting", "ServiceTestSupport", "StoreEvidence", "SyncProtocol",
            "SyncServer", "SyncService", "syncd", "HTTPTypes", "Logging", "ServiceLifecycle", "NIOCore", "NIOEmbedded",
            "NIOPosix", "Crypto", "CryptoExtras")),
    tests(
        "LiveServerTests",
        on(
            "CurlTransport", "EntitlementSync", "Entitlements", "EvidenceTestSupport", "HTTPStorage", "SQLiteStorage",
            "StoreEvidence", "SyncProtocol", "SyncService", "syncd", "HTTPTypes", "Crypto")),
    tests(
        "SyncAgentTests",
        on("Entitlements", "EntitlementSync", "SyncAgent", "SyncServer", "SyncService", "HTTPTypes", "Logging")),
    tests(
        "SyncdTests",
        on(
            "EntitlementSync", "Entitlements", "EvidenceTestSupport", "FileStorage", "SQLiteStorage", "StoreEvidence",
            "SyncService", "syncd", "ArgumentParser", "Crypto", "CryptoExtras")),
    tests(
        "SyncSimulationTests",
        on("Checksums", "Entitlements", "EntitlementsTestSupport", "EntitlementSync", "SyncSimulation")),
    tests("ServiceSimulationTests", on("ServiceSimulation", "SyncService", "HTTPTypes")),
    tests("SyncsimTests", on("Entitlements", "SyncSimulation", "syncsim")),
    tests("LoadTestingTests", on("LoadTesting", "NIOCore", "NIOHTTP1", "NIOPosix")),
    .testTarget(
        name: "JournalStoreTests", dependencies: on("JournalStore", "SyncCore", "SyncCoreTesting"),
        path: "Examples/JournalStore/Tests/JournalStoreTests"),
]

let testSupport: [Target] = [
    .target(name: "TestSupport", dependencies: on("SyncCore", "SyncCoreTesting"), path: "Tests/TestSupport"),
    .target(name: "PostgreSQLTestSupport", dependencies: on("TestSupport"), path: "Tests/PostgreSQLTestSupport"),
    .target(
        name: "ServiceTestSupport",
        dependencies: on(
            "Checksums", "Entitlements", "SyncCore", "SyncProtocol", "SyncService", "TestSupport", "HTTPTypes"),
        path: "Tests/ServiceTestSupport"),
    .target(
        name: "EntitlementsTestSupport", dependencies: on("Entitlements", "TestSupport"),
        path: "Tests/EntitlementsTestSupport"),
    // Creates certificates and signs evidence.
    .target(
        name: "EvidenceTestSupport",
        dependencies: on("Entitlements", "StoreEvidence", "TestSupport", "X509", "SwiftASN1", "Crypto", "CryptoExtras"),
        path: "Tests/EvidenceTestSupport"),
    // A process that tests start, race with and kill.
    .executableTarget(
        name: "StoreProbe",
        dependencies: on(
            "FileStorage", "HTTPStorage", "PostgreSQLStorage", "SQLiteStorage", "SyncCore", "SyncCoreTesting"),
        path: "Tests/StoreProbe"),
    // The program of Docs/GettingStarted.md.
    .executableTarget(name: "GettingStarted", dependencies: on("EntitlementKit"), path: "Tests/GettingStarted"),
    .target(
        name: "JournalStore", dependencies: on("SyncCore"), path: "Examples/JournalStore/Sources/JournalStore"),
]

let benchmarks: [Target] = [
    .target(name: "BenchmarkSupport", path: "Benchmarks/Sources/BenchmarkSupport"),
    .target(name: "LoadTesting", dependencies: on("NIOCore", "NIOPosix"), path: "Benchmarks/Sources/LoadTesting"),
    // The baseline of the wire rows: libcurl called from C.
    .target(
        name: "RawCurl", path: "Benchmarks/Sources/RawCurl", linkerSettings: [.linkedLibrary("curl")]),
    // It runs the last two as processes.
    benchmark(
        "benchmarks",
        on("Entitlements", "SyncCoreTesting", "SyncSimulation", "kit-start-to-access", "start-to-access")),
    benchmark(
        "store-benchmarks",
        on(
            "EntitlementSync", "Entitlements", "FileStorage", "GRDBSQLite", "SQLiteStorage", "SyncCore",
            "SyncCoreTesting")),
    benchmark(
        "evidence-benchmarks",
        on(
            "Crypto", "CurlTransport", "EntitlementSync", "EntitlementSyncEvidence", "Entitlements", "HTTPStorage",
            "HTTPTypes", "SwiftASN1", "SyncCore", "SyncProtocol", "X509")),
    benchmark(
        "wire-benchmarks",
        on(
            "RawCurl", "CurlTransport", "EntitlementSync", "Entitlements", "HTTPStorage", "HTTPTypes", "SyncCore",
            "SyncProtocol")),
    // Load on a server, for peers/ and .ci/soak-server.
    benchmark("server-load", on("LoadTesting", "UnixSignals")),
    // The upper bound for a server on these libraries, for peers/peers.py.
    benchmark(
        "bare-route",
        on("HTTPTypes", "HummingbirdCore", "Logging", "NIOCore", "NIOPosix", "ServiceLifecycle", "UnixSignals")),
    // Fills a server's store, for peers/crowd.py.
    benchmark("crowd", on("Entitlements", "SQLiteStorage", "SyncCore")),
    benchmark(
        "fleet",
        on(
            "CurlTransport", "EntitlementSync", "Entitlements", "HTTPStorage", "HTTPTypes", "SyncCore",
            "SyncProtocol")),
    // Load on a store in PostgreSQL, for peers/database.py.
    benchmark("database-load", on("PostgreSQLStorage", "SyncCore")),
    .executableTarget(
        name: "start-to-access", dependencies: on("Entitlements"), path: "Benchmarks/Sources/start-to-access"),
    .executableTarget(
        name: "kit-start-to-access", dependencies: on("EntitlementKit", "EntitlementSync", "Entitlements"),
        path: "Benchmarks/Sources/kit-start-to-access"),
]

let package = Package(
    name: "EntitlementSync",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2), .macCatalyst(.v18)],
    products: libraries.map { .library(name: $0, targets: [$0]) },
    // A disabled trait adds no code and no dependencies.
    traits: [
        .default(enabledTraits: ["TLS"]),
        .trait(
            name: "Evidence",
            description: "EntitlementSyncEvidence: verifies on a device what stores sign, with swift-certificates"),
        .trait(name: "Sealed", description: "SealedStorage: encrypts what any store keeps, with swift-crypto"),
        .trait(
            name: "Observed",
            description: "ObservedStorage: metrics, traces and a log of any store, with swift-metrics and siblings"),
        .trait(
            name: "PostgreSQL",
            description: "PostgreSQLStorage: a database that any number of servers share, with libpq"),
        .trait(name: "TLS", description: "syncd serve: HTTPS and HTTP/2, with swift-nio-ssl"),
        .trait(name: "Parse", description: "syncd serve: the API of Parse Server, for apps that use a Parse SDK"),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-crypto", "3.12.3"..<"5.0.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.2", traits: []),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
    ],
    targets: core + backends + server + testTargets + testSupport + benchmarks
)

for target in package.targets where target.type != .system && target.name != "RawCurl" && target.name != "CServerPages"
{
    target.swiftSettings = [
        .swiftLanguageMode(.v6),
        .treatAllWarnings(as: .error),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InternalImportsByDefault"),
    ]
    // As if the trait were enabled: the server always verifies evidence.
    if target.name == "StoreEvidence" { target.swiftSettings?.append(.define("Evidence")) }
}
