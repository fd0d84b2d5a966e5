// swift-tools-version: 6.2
import PackageDescription

// A package of its own, because `swift build` of a package that names swift-protobuf compiles all of protoc: minutes
// in which nobody gets further. `swift test` in this one compiles the library and no more.
let package = Package(
    name: "LedgerFormat",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "EntitlementSync", path: "../.."),
        .package(url: "https://github.com/apple/swift-protobuf", from: "1.39.0"),
    ],
    targets: [
        // Support is a link to the random values that the other tests use.
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
