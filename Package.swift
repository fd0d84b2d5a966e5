// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "EntitlementSync",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2), .macCatalyst(.v18)],
    products: [
        .library(name: "Entitlements", targets: ["Entitlements"]),
        .library(name: "SyncCore", targets: ["SyncCore"]),
        .library(name: "EntitlementSync", targets: ["EntitlementSync"]),
        .library(name: "EntitlementSyncEvidence", targets: ["EntitlementSyncEvidence"]),
        .library(name: "EntitlementSyncStoreKit", targets: ["EntitlementSyncStoreKit"]),
        .library(name: "FileStorage", targets: ["FileStorage"]),
        .library(name: "SealedStorage", targets: ["SealedStorage"]),
        .library(name: "ObservedStorage", targets: ["ObservedStorage"]),
        .library(name: "SQLiteStorage", targets: ["SQLiteStorage"]),
        .library(name: "SQLiteRecovery", targets: ["SQLiteRecovery"]),
        .library(name: "PostgreSQLStorage", targets: ["PostgreSQLStorage"]),
        .library(name: "SyncProtocol", targets: ["SyncProtocol"]),
        .library(name: "HTTPStorage", targets: ["HTTPStorage"]),
        .library(name: "WebDAVStorage", targets: ["WebDAVStorage"]),
        .library(name: "UbiquitousStorage", targets: ["UbiquitousStorage"]),
        .library(name: "CurlTransport", targets: ["CurlTransport"]),
        .library(name: "URLSessionTransport", targets: ["URLSessionTransport"]),
        .library(name: "EntitlementKit", targets: ["EntitlementKit"]),
        .library(name: "SyncCoreTesting", targets: ["SyncCoreTesting"]),
        .library(name: "SyncSimulation", targets: ["SyncSimulation"]),
    ],
    // A disabled trait adds no code and no dependencies.
    traits: [
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
    ],
    dependencies: [
        // Used by syncd only. Executables are not products, so an app never fetches it.
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: []),
        .package(url: "https://github.com/apple/swift-crypto", "3.12.3"..<"5.0.0"),
        // Used by SyncProtocol only.
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
        // Used by SQLiteStorage only.
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        // Used by SyncServer only, which is not a product, so an app never fetches them.
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
        // Used by SyncAgent only, to run programs.
        .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.2", traits: []),
        // Used by StoreEvidence and, behind a trait, by EntitlementSyncEvidence.
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
    ],
    targets: [
        .target(name: "Checksums"),
        .target(name: "ProtoCoding"),
        .target(name: "Entitlements", dependencies: ["Checksums", "ProtoCoding"]),
        .target(name: "SyncCore", dependencies: ["Checksums"]),
        .target(name: "EntitlementSync", dependencies: ["Entitlements", "SyncCore"]),
        .target(name: "FileStorage", dependencies: ["Checksums", "FileWatching", "SyncCore"], path: "Backends/File"),
        .target(
            name: "SealedStorage",
            dependencies: [
                "SyncCore",
                .product(name: "Crypto", package: "swift-crypto", condition: .when(traits: ["Sealed"])),
            ], path: "Backends/Sealed"),
        .target(
            name: "ObservedStorage",
            dependencies: [
                "SyncCore",
                .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Observed"])),
                .product(name: "Metrics", package: "swift-metrics", condition: .when(traits: ["Observed"])),
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: .when(traits: ["Observed"])),
            ], path: "Backends/Observed"),
        .target(name: "FileWatching"),
        .target(
            name: "SQLiteStorage",
            dependencies: [
                "Checksums", "FileWatching", "SyncCore", .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ],
            path: "Backends/SQLite"),
        .target(name: "SQLiteRecovery", dependencies: ["SQLiteStorage", "SyncCore"], path: "Backends/SQLiteRecovery"),
        .systemLibrary(name: "CPQ", path: "Backends/PostgreSQL/CPQ", pkgConfig: "libpq"),
        .target(
            name: "PostgreSQLStorage",
            dependencies: ["SyncCore", .target(name: "CPQ", condition: .when(traits: ["PostgreSQL"]))],
            path: "Backends/PostgreSQL", exclude: ["CPQ"]),
        .target(
            name: "SyncProtocol",
            dependencies: ["ProtoCoding", "SyncCore", .product(name: "HTTPTypes", package: "swift-http-types")]),
        .target(
            name: "HTTPStorage",
            dependencies: ["SyncCore", "SyncProtocol", .product(name: "HTTPTypes", package: "swift-http-types")],
            path: "Backends/HTTP"),
        .systemLibrary(name: "CCurl", path: "Backends/Curl/CCurl", pkgConfig: "libcurl"),
        .target(
            name: "CurlTransport",
            dependencies: ["CCurl", "SyncProtocol", .product(name: "HTTPTypes", package: "swift-http-types")],
            path: "Backends/Curl", exclude: ["CCurl"]),
        .target(
            name: "URLSessionTransport",
            dependencies: ["SyncProtocol", .product(name: "HTTPTypes", package: "swift-http-types")],
            path: "Backends/URLSession"),
        .target(
            name: "EntitlementKit",
            dependencies: [
                "EntitlementSync", "EntitlementSyncStoreKit", "Entitlements", "FileStorage", "HTTPStorage", "SyncCore",
                "SyncProtocol", .target(name: "CurlTransport", condition: .when(platforms: [.linux])),
                .target(
                    name: "URLSessionTransport",
                    condition: .when(platforms: [.macOS, .iOS, .tvOS, .watchOS, .visionOS, .macCatalyst])),
            ]),
        .target(
            name: "WebDAVStorage",
            dependencies: [
                "Checksums", "SyncCore", "SyncProtocol", .product(name: "HTTPTypes", package: "swift-http-types"),
            ], path: "Backends/WebDAV"),
        .target(name: "UbiquitousStorage", dependencies: ["Checksums", "SyncCore"], path: "Backends/Ubiquitous"),
        .target(
            name: "StoreEvidence",
            dependencies: [
                "Entitlements",
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ]),
        // It compiles the sources of StoreEvidence through a symbolic link. SwiftPM leaves out the packages of a
        // product only if its own targets name them behind a trait, and the server needs StoreEvidence without one.
        .target(
            name: "EntitlementSyncEvidence",
            dependencies: [
                "EntitlementSync", "Entitlements", "SyncCore",
                .product(name: "X509", package: "swift-certificates", condition: .when(traits: ["Evidence"])),
                .product(name: "SwiftASN1", package: "swift-asn1", condition: .when(traits: ["Evidence"])),
                .product(name: "Crypto", package: "swift-crypto", condition: .when(traits: ["Evidence"])),
                .product(name: "CryptoExtras", package: "swift-crypto", condition: .when(traits: ["Evidence"])),
            ]),
        .target(
            name: "EntitlementSyncStoreKit", dependencies: ["EntitlementSync", "Entitlements", "SyncCore"]),
        // The rules for expiry dates that old apps write. The server and the simulation use them.
        .target(name: "WrittenDates", dependencies: ["Entitlements"]),
        .target(
            name: "SyncService",
            dependencies: [
                "Entitlements", "EntitlementSync", "StoreEvidence", "SyncCore", "SyncProtocol", "WrittenDates",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .target(
            name: "ParseFacade",
            dependencies: [
                "Entitlements", "EntitlementSync", "SyncCore", "SyncProtocol", "SyncService", "WrittenDates",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        // Debian's libcrypt, for imported password hashes.
        .systemLibrary(name: "CCrypt", path: "Sources/SyncServer/CCrypt", pkgConfig: "libcrypt"),
        .target(
            name: "SyncServer",
            dependencies: [
                "Entitlements", "SyncCore", "SyncProtocol", "SyncService",
                .target(name: "CCrypt", condition: .when(platforms: [.linux])),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
                .product(name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras"),
                .product(name: "NIOHTTPTypesHTTP2", package: "swift-nio-extras"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "JWTKit", package: "jwt-kit"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "CoreMetrics", package: "swift-metrics"),
            ], exclude: ["CCrypt"], resources: [.embedInCode("Resources/openapi.yaml")]),
        // The headers of Linux that Swift's Glibc module leaves out.
        .systemLibrary(name: "CLinux", path: "Sources/SyncAgent/CLinux"),
        .target(
            name: "SyncAgent",
            dependencies: [
                "Checksums", "Entitlements", "EntitlementSync", "HTTPStorage", "StoreEvidence", "SyncCore",
                "SyncProtocol", "SyncServer", "SyncService",
                .target(name: "CLinux", condition: .when(platforms: [.linux])),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Subprocess", package: "swift-subprocess"),
            ], exclude: ["CLinux"]),
        .target(name: "SyncCoreTesting", dependencies: ["SyncCore"]),
        .target(
            name: "SyncSimulation",
            dependencies: ["Entitlements", "SyncCore", "EntitlementSync", "SyncCoreTesting", "WrittenDates"]),
        .executableTarget(
            name: "syncsim",
            dependencies: [
                "Entitlements", "FileStorage", "SQLiteStorage", "SealedStorage", "SyncCore", "SyncCoreTesting",
                "SyncSimulation",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]),
        .executableTarget(
            name: "syncd",
            dependencies: [
                "Entitlements", "SyncCore", "EntitlementSync", "FileStorage", "SQLiteRecovery", "SQLiteStorage",
                "HTTPStorage", "CurlTransport", "WebDAVStorage", "Checksums", "StoreEvidence", "SyncProtocol",
                "ParseFacade", "PostgreSQLStorage", "SyncAgent", "SyncServer", "SyncService",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Configuration", package: "swift-configuration"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ], resources: [.embedInCode("Resources/insomniowl.json")]),
        .testTarget(name: "TidyTests"),
        .testTarget(name: "PackageTests", dependencies: ["TestSupport", "syncd"]),
        .testTarget(
            name: "ReadmeTests",
            dependencies: [
                "EntitlementKit", "Entitlements", "EntitlementSync", "GettingStarted", "TestSupport", "syncd",
            ]),
        // The program of Docs/GettingStarted.md, which .ci/check-docs runs.
        .executableTarget(name: "GettingStarted", dependencies: ["EntitlementKit"], path: "Tests/GettingStarted"),
        .target(name: "TestSupport", dependencies: ["SyncCore", "SyncCoreTesting"], path: "Tests/TestSupport"),
        // A process that tests start, race with and kill.
        .executableTarget(
            name: "StoreProbe",
            dependencies: [
                "FileStorage", "HTTPStorage", "PostgreSQLStorage", "SQLiteStorage", "SyncCore", "SyncCoreTesting",
            ], path: "Tests/StoreProbe"),
        .target(
            name: "PostgreSQLTestSupport", dependencies: ["TestSupport"], path: "Tests/PostgreSQLTestSupport"),
        // Empty if the trait is disabled.
        .testTarget(
            name: "PostgreSQLStorageTests",
            dependencies: [
                "CurlTransport", "HTTPStorage", "PostgreSQLStorage", "PostgreSQLTestSupport", "StoreProbe", "SyncCore",
                "SyncCoreTesting", "SyncProtocol", "TestSupport", "syncd",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .testTarget(
            name: "SQLiteStorageTests",
            dependencies: [
                "Checksums", "FileWatching", "SQLiteRecovery", "SQLiteStorage", "StoreProbe", "SyncCore",
                "SyncCoreTesting", "TestSupport", .product(name: "GRDB", package: "GRDB.swift"),
            ]),
        .testTarget(
            name: "SyncProtocolTests",
            dependencies: [
                "SyncCore", "SyncCoreTesting", "SyncProtocol", "TestSupport",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .testTarget(
            name: "HTTPStorageTests",
            dependencies: [
                "HTTPStorage", "ServiceTestSupport", "StoreProbe", "SyncCore", "SyncCoreTesting", "SyncProtocol",
                "SyncService", "TestSupport", .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .target(
            name: "ServiceTestSupport",
            dependencies: [
                "Checksums", "Entitlements", "SyncCore", "SyncProtocol", "SyncService", "TestSupport",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ], path: "Tests/ServiceTestSupport"),
        .testTarget(
            name: "SyncServiceTests",
            dependencies: [
                "Entitlements", "EntitlementSync", "EntitlementsTestSupport", "EvidenceTestSupport", "HTTPStorage",
                "ServiceTestSupport", "StoreEvidence", "SyncCore", "SyncCoreTesting", "SyncProtocol", "SyncService",
                "TestSupport",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .testTarget(
            name: "LiveServerTests",
            dependencies: [
                "CurlTransport", "EntitlementSync", "Entitlements", "EvidenceTestSupport", "HTTPStorage",
                "SQLiteStorage", "StoreEvidence", "SyncCore", "SyncCoreTesting", "SyncProtocol", "TestSupport", "syncd",
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Crypto", package: "swift-crypto"),
            ]),
        .testTarget(
            name: "WebDAVStorageTests",
            dependencies: [
                "CurlTransport", "Entitlements", "EntitlementSync", "ServiceTestSupport", "SyncCore", "SyncCoreTesting",
                "SyncProtocol", "TestSupport", "WebDAVStorage",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .testTarget(
            name: "ParseFacadeTests",
            dependencies: [
                "CurlTransport", "EntitlementSync", "Entitlements", "EvidenceTestSupport", "ParseFacade",
                "ServiceTestSupport", "StoreEvidence", "SyncCore", "SyncCoreTesting", "SyncProtocol", "SyncServer",
                "SyncService", "TestSupport", "WrittenDates", "syncd",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .testTarget(
            name: "SyncServerTests",
            dependencies: [
                "Checksums", "Entitlements", "LoadTesting", "StoreEvidence", "SyncCore", "SyncCoreTesting",
                "SyncProtocol", "SyncServer", "SyncService", "TestSupport", "syncd",
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "JWTKit", package: "jwt-kit"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ]),
        // Used by tests only. Benchmarks/Package.swift builds the same sources for its programs.
        .target(
            name: "LoadTesting",
            dependencies: [
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
            ], path: "Benchmarks/Sources/LoadTesting"),
        .testTarget(
            name: "LoadTestingTests",
            dependencies: [
                "LoadTesting", "TestSupport", .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
            ]),
        .testTarget(
            name: "TransportTests",
            dependencies: [
                "CurlTransport", "SyncCoreTesting", "SyncProtocol", "TestSupport", "URLSessionTransport",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .testTarget(name: "FileWatchingTests", dependencies: ["FileWatching", "TestSupport"]),
        .testTarget(
            name: "SyncCoreTests", dependencies: ["FileStorage", "SyncCore", "SyncCoreTesting", "TestSupport"]),
        .testTarget(
            name: "ConformanceTests",
            dependencies: [
                "FileStorage", "SQLiteStorage", "StoreProbe", "SyncCore", "SyncCoreTesting", "TestSupport",
            ]),
        .testTarget(
            name: "FileStorageTests",
            dependencies: [
                "Checksums", "FileStorage", "FileWatching", "StoreProbe", "SyncCore", "SyncCoreTesting",
                "TestSupport",
            ]),
        // Empty if the traits of the tested modules are disabled.
        .testTarget(
            name: "EntitlementSyncEvidenceTests",
            dependencies: [
                "EntitlementSync", "EntitlementSyncEvidence", "Entitlements", "EvidenceTestSupport", "FileStorage",
                "SyncCore", "SyncCoreTesting", "TestSupport",
            ]),
        .testTarget(
            name: "EntitlementKitTests",
            dependencies: [
                "EntitlementKit", "EntitlementSync", "EntitlementSyncStoreKit", "Entitlements", "HTTPStorage",
                "ServiceTestSupport", "SyncCore", "SyncCoreTesting", "SyncService", "TestSupport", "syncd",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .testTarget(
            name: "UbiquitousStorageTests",
            dependencies: [
                "EntitlementSync", "Entitlements", "SyncCore", "SyncCoreTesting", "TestSupport", "UbiquitousStorage",
            ]),
        .testTarget(
            name: "SealedStorageTests",
            dependencies: [
                "FileStorage", "SQLiteStorage", "SealedStorage", "SyncCore", "SyncCoreTesting", "TestSupport",
            ]),
        .testTarget(
            name: "ObservedStorageTests",
            dependencies: [
                "ObservedStorage", "SyncCore", "SyncCoreTesting", "TestSupport",
                .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Observed"])),
                .product(name: "MetricsTestKit", package: "swift-metrics", condition: .when(traits: ["Observed"])),
                .product(
                    name: "InMemoryTracing", package: "swift-distributed-tracing",
                    condition: .when(traits: ["Observed"])),
            ]),
        .target(
            name: "EntitlementsTestSupport", dependencies: ["Entitlements"], path: "Tests/EntitlementsTestSupport"),
        .testTarget(
            name: "ReconciliationTests",
            dependencies: [
                "SyncCore", "SyncCoreTesting", "Entitlements", "EntitlementSync", "EntitlementsTestSupport",
                "TestSupport",
            ]),
        .testTarget(
            name: "EntitlementSyncTests",
            dependencies: [
                "Entitlements", "SyncCore", "EntitlementSync", "EntitlementSyncStoreKit", "FileStorage",
                "SyncCoreTesting", "TestSupport",
            ]),
        .testTarget(
            name: "SyncSimulationTests",
            dependencies: [
                "Checksums", "Entitlements", "EntitlementsTestSupport", "SyncCore", "EntitlementSync",
                "SyncCoreTesting", "SyncSimulation", "TestSupport",
            ]),
        // Mints certificates and signs evidence for tests.
        .target(
            name: "EvidenceTestSupport",
            dependencies: [
                "Entitlements", "StoreEvidence", .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"), .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ], path: "Tests/EvidenceTestSupport"),
        .testTarget(
            name: "StoreEvidenceTests",
            dependencies: [
                "Entitlements", "EvidenceTestSupport", "StoreEvidence",
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"), .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ]),
        .testTarget(name: "EntitlementsTests", dependencies: ["Entitlements", "Checksums", "EntitlementsTestSupport"]),
        .testTarget(
            name: "SyncAgentTests",
            dependencies: [
                "Entitlements", "EntitlementSync", "SyncAgent", "SyncCore", "SyncCoreTesting", "SyncServer",
                "TestSupport",
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ]),
        .testTarget(
            name: "SyncdTests",
            dependencies: [
                "EntitlementSync", "Entitlements", "EvidenceTestSupport", "FileStorage", "SQLiteStorage",
                "StoreEvidence", "SyncCore", "SyncCoreTesting", "SyncService", "TestSupport", "syncd",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ]),
        .testTarget(
            name: "SyncsimTests",
            dependencies: ["Entitlements", "SyncCoreTesting", "SyncSimulation", "TestSupport", "syncsim"]),
    ]
)

for target in package.targets where target.type != .system {
    target.swiftSettings = [
        .swiftLanguageMode(.v6),
        .treatAllWarnings(as: .error),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InternalImportsByDefault"),
    ]
}

// As if the trait were enabled: the server always verifies evidence.
for target in package.targets where target.name == "StoreEvidence" {
    target.swiftSettings?.append(.define("Evidence"))
}
