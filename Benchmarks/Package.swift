// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "Benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "EntitlementSync", path: ".."),
        // Only for sqlite3's C API, which the SQLite store is held against: the same library that the store uses.
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        .executableTarget(
            name: "benchmarks",
            dependencies: [
                "BenchmarkSupport",
                .product(name: "Entitlements", package: "EntitlementSync"),
                .product(name: "SyncSimulation", package: "EntitlementSync"),
                // Spawned, not called: listed so that running the benchmarks builds it.
                "start-to-access",
            ]),
        .executableTarget(
            name: "store-benchmarks",
            dependencies: [
                "BenchmarkSupport",
                .product(name: "FileStorage", package: "EntitlementSync"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "SQLiteStorage", package: "EntitlementSync"),
                .product(name: "SyncCore", package: "EntitlementSync"),
            ]),
        .target(name: "BenchmarkSupport"),
        .executableTarget(
            name: "start-to-access", dependencies: [.product(name: "Entitlements", package: "EntitlementSync")]),
    ]
)

for target in package.targets {
    target.swiftSettings = [
        .swiftLanguageMode(.v6),
        .treatAllWarnings(as: .error),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InternalImportsByDefault"),
    ]
}
