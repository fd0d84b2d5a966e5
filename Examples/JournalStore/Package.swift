// swift-tools-version: 6.2
import PackageDescription

// In a copy of this package, replace the dependency's path with `.package(url: …)`.
let package = Package(
    name: "JournalStore",
    platforms: [.macOS(.v15)],
    products: [.library(name: "JournalStore", targets: ["JournalStore"])],
    dependencies: [.package(name: "EntitlementSync", path: "../..")],
    targets: [
        .target(name: "JournalStore", dependencies: [.product(name: "SyncCore", package: "EntitlementSync")]),
        .testTarget(
            name: "JournalStoreTests",
            dependencies: [
                "JournalStore",
                .product(name: "SyncCore", package: "EntitlementSync"),
                .product(name: "SyncCoreTesting", package: "EntitlementSync"),
            ]),
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
