// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "Benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "EntitlementSync", path: "..", traits: ["Evidence", "PostgreSQL"]),
        // For the C API of the SQLite that the store uses: the baseline of the SQLite rows.
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        // For evidence-benchmarks: mints the certificates.
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-crypto", "3.12.3"..<"5.0.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        // For bare-route: the networking libraries of the server.
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1", traits: []),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .executableTarget(
            name: "benchmarks",
            dependencies: [
                "BenchmarkSupport",
                .product(name: "Entitlements", package: "EntitlementSync"),
                .product(name: "SyncCoreTesting", package: "EntitlementSync"),
                .product(name: "SyncSimulation", package: "EntitlementSync"),
                // Dependencies so that they are built; they run as processes.
                "kit-start-to-access", "start-to-access",
            ]),
        .executableTarget(
            name: "store-benchmarks",
            dependencies: [
                "BenchmarkSupport",
                .product(name: "EntitlementSync", package: "EntitlementSync"),
                .product(name: "Entitlements", package: "EntitlementSync"),
                .product(name: "FileStorage", package: "EntitlementSync"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "SQLiteStorage", package: "EntitlementSync"),
                .product(name: "SyncCore", package: "EntitlementSync"),
                .product(name: "SyncCoreTesting", package: "EntitlementSync"),
            ]),
        .executableTarget(
            name: "evidence-benchmarks",
            dependencies: [
                "BenchmarkSupport",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CurlTransport", package: "EntitlementSync"),
                .product(name: "EntitlementSync", package: "EntitlementSync"),
                .product(name: "EntitlementSyncEvidence", package: "EntitlementSync"),
                .product(name: "Entitlements", package: "EntitlementSync"),
                .product(name: "HTTPStorage", package: "EntitlementSync"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "SyncCore", package: "EntitlementSync"),
                .product(name: "SyncProtocol", package: "EntitlementSync"),
                .product(name: "X509", package: "swift-certificates"),
            ]),
        .executableTarget(
            name: "wire-benchmarks",
            dependencies: [
                "BenchmarkSupport", "RawCurl",
                .product(name: "CurlTransport", package: "EntitlementSync"),
                .product(name: "EntitlementSync", package: "EntitlementSync"),
                .product(name: "Entitlements", package: "EntitlementSync"),
                .product(name: "HTTPStorage", package: "EntitlementSync"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "SyncCore", package: "EntitlementSync"),
                .product(name: "SyncProtocol", package: "EntitlementSync"),
            ]),
        .target(name: "BenchmarkSupport"),
        .target(
            name: "LoadTesting",
            dependencies: [
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
            ]),
        // Load on a server, for peers/ and .ci/soak-server.
        .executableTarget(
            name: "server-load",
            dependencies: [
                "BenchmarkSupport", "LoadTesting",
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ]),
        // The upper bound for a server on these libraries, for peers/peers.py.
        .executableTarget(
            name: "bare-route",
            dependencies: [
                "BenchmarkSupport",
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ]),
        // Fills a server's store, for peers/crowd.py.
        .executableTarget(
            name: "crowd",
            dependencies: [
                "BenchmarkSupport",
                .product(name: "SQLiteStorage", package: "EntitlementSync"),
                .product(name: "SyncCore", package: "EntitlementSync"),
            ]),
        .executableTarget(
            name: "fleet",
            dependencies: [
                "BenchmarkSupport",
                .product(name: "CurlTransport", package: "EntitlementSync"),
                .product(name: "EntitlementSync", package: "EntitlementSync"),
                .product(name: "Entitlements", package: "EntitlementSync"),
                .product(name: "HTTPStorage", package: "EntitlementSync"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "SyncCore", package: "EntitlementSync"),
                .product(name: "SyncProtocol", package: "EntitlementSync"),
            ]),
        // Load on a store in PostgreSQL, for peers/database.py.
        .executableTarget(
            name: "database-load",
            dependencies: [
                "BenchmarkSupport",
                .product(name: "PostgreSQLStorage", package: "EntitlementSync"),
                .product(name: "SyncCore", package: "EntitlementSync"),
            ]),
        // The baseline of the wire rows: libcurl called from C.
        .target(name: "RawCurl", linkerSettings: [.linkedLibrary("curl")]),
        .executableTarget(
            name: "start-to-access", dependencies: [.product(name: "Entitlements", package: "EntitlementSync")]),
        .executableTarget(
            name: "kit-start-to-access",
            dependencies: [
                .product(name: "EntitlementKit", package: "EntitlementSync"),
                .product(name: "EntitlementSync", package: "EntitlementSync"),
                .product(name: "Entitlements", package: "EntitlementSync"),
            ]),
    ]
)

for target in package.targets where target.name != "RawCurl" {
    target.swiftSettings = [
        .swiftLanguageMode(.v6),
        .treatAllWarnings(as: .error),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InternalImportsByDefault"),
    ]
}
