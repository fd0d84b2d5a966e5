// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "EntitlementSync",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2), .macCatalyst(.v18)],
    products: [
        .library(name: "Entitlements", targets: ["Entitlements"]),
        .library(name: "SyncCore", targets: ["SyncCore"]),
        .library(name: "EntitlementSync", targets: ["EntitlementSync"]),
        .library(name: "FileStorage", targets: ["FileStorage"]),
        .library(name: "SyncCoreTesting", targets: ["SyncCoreTesting"]),
        .library(name: "SyncSimulation", targets: ["SyncSimulation"]),
    ],
    dependencies: [
        // Only syncd uses it. Executables are not products, so an app never fetches it.
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2")
    ],
    targets: [
        .target(name: "Checksums"),
        .target(name: "Entitlements", dependencies: ["Checksums"]),
        .target(name: "SyncCore", dependencies: ["Checksums"]),
        .target(name: "EntitlementSync", dependencies: ["Entitlements", "SyncCore"]),
        .target(name: "FileStorage", dependencies: ["Checksums", "SyncCore"], path: "Backends/File"),
        .target(name: "SyncCoreTesting", dependencies: ["SyncCore"]),
        .target(
            name: "SyncSimulation", dependencies: ["Entitlements", "SyncCore", "EntitlementSync", "SyncCoreTesting"]),
        .executableTarget(
            name: "syncsim",
            dependencies: [
                "Entitlements", "SyncCore", "SyncCoreTesting", "SyncSimulation",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]),
        .executableTarget(
            name: "syncd",
            dependencies: [
                "Entitlements", "SyncCore", "EntitlementSync", "FileStorage",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]),
        .testTarget(name: "TidyTests"),
        .testTarget(name: "PackageTests"),
        .testTarget(
            name: "ReadmeTests", dependencies: ["Entitlements", "EntitlementSync", "FileStorage"]),
        .target(name: "TestSupport", dependencies: ["SyncCore", "SyncCoreTesting"], path: "Tests/TestSupport"),
        // A second process for the tests to race with and to kill.
        .executableTarget(
            name: "FileWriterProbe", dependencies: ["FileStorage", "SyncCore"], path: "Tests/FileWriterProbe"),
        .testTarget(name: "SyncCoreTests", dependencies: ["SyncCore", "SyncCoreTesting", "TestSupport"]),
        .testTarget(
            name: "FileStorageTests",
            dependencies: [
                "Checksums", "FileStorage", "FileWriterProbe", "SyncCore", "SyncCoreTesting", "TestSupport",
            ]),
        .target(
            name: "EntitlementsTestSupport", dependencies: ["Entitlements"], path: "Tests/EntitlementsTestSupport"),
        .testTarget(
            name: "ReconcilingTests",
            dependencies: [
                "SyncCore", "SyncCoreTesting", "Entitlements", "EntitlementSync", "EntitlementsTestSupport",
                "TestSupport",
            ]),
        .testTarget(
            name: "EntitlementSyncTests",
            dependencies: [
                "Entitlements", "SyncCore", "EntitlementSync", "FileStorage", "SyncCoreTesting", "TestSupport",
            ]),
        .testTarget(
            name: "SyncSimulationTests",
            dependencies: [
                "Checksums", "Entitlements", "EntitlementsTestSupport", "SyncCore", "EntitlementSync",
                "SyncCoreTesting", "SyncSimulation", "TestSupport",
            ]),
        .testTarget(name: "EntitlementsTests", dependencies: ["Entitlements", "Checksums", "EntitlementsTestSupport"]),
        .testTarget(
            name: "SyncdTests",
            dependencies: [
                "EntitlementSync", "Entitlements", "FileStorage", "SyncCore", "SyncCoreTesting", "TestSupport", "syncd",
            ]),
        .testTarget(name: "SyncsimTests", dependencies: ["SyncSimulation", "TestSupport", "syncsim"]),
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
