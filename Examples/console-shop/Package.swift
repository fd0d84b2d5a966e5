// swift-tools-version: 6.2
import PackageDescription

// In a copy of this package, replace the dependency's path with `.package(url: …)`.
let package = Package(
    name: "console-shop",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "EntitlementSync", path: "../..")],
    targets: [
        .executableTarget(name: "shop", dependencies: [.product(name: "EntitlementKit", package: "EntitlementSync")])
    ]
)
