// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "Benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "EntitlementSync", path: "..")],
    targets: [
        .executableTarget(
            name: "benchmarks",
            dependencies: [
                .product(name: "Entitlements", package: "EntitlementSync"),
                .product(name: "SyncSimulation", package: "EntitlementSync"),
                // Spawned, not called: listed so that running the benchmarks builds it.
                "start-to-access",
            ]),
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
