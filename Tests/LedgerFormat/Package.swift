// swift-tools-version: 6.2
import PackageDescription

// A separate package, because `swift build` of a package that depends on swift-protobuf compiles all of protoc, which
// takes minutes. `swift test` of this package compiles only the library.
let package = Package(
    name: "LedgerFormat",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "EntitlementSync", path: "../.."),
        .package(url: "https://github.com/apple/swift-protobuf", from: "1.39.0"),
    ],
    targets: [
        // Support is a link to the random values shared with the other tests.
        .testTarget(
            name: "LedgerFormatTests",
            dependencies: [
                .product(name: "Entitlements", package: "EntitlementSync"),
                .product(name: "SwiftProtobuf", package: "swift-protobuf"),
            ],
            path: "LedgerFormatTests",
            swiftSettings: [
                .swiftLanguageMode(.v6),
                .treatAllWarnings(as: .error),
                .enableUpcomingFeature("ExistentialAny"),
                .enableUpcomingFeature("MemberImportVisibility"),
                .enableUpcomingFeature("InternalImportsByDefault"),
            ])
    ]
)
