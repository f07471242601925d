// swift-tools-version: 6.2
import PackageDescription

let dipper: [Target.Dependency] = ["Dipper", "DipperInspector", "DipperRedis", "SampleServer"].map {
    .product(name: $0, package: "Dipper")
}

// A package of its own, as that of any server: it turns on the trait of the product DipperRedis.
let package = Package(
    name: "ImageServer",
    dependencies: [
        .package(name: "Dipper", path: "../..", traits: [.defaults, "Redis"]),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        // Signatures and entity tags. Both libraries are there already, for the cache.
        .systemLibrary(
            name: "CServerHashes", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev", "libxxhash-dev"])]),
        .executableTarget(
            name: "ImageServer",
            dependencies: dipper + [
                "CServerHashes",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ]),
        .testTarget(
            name: "ImageServerTests",
            dependencies: [
                "ImageServer", .product(name: "Dipper", package: "Dipper"),
                .product(name: "DipperTesting", package: "Dipper"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
            ]),
    ],
    swiftLanguageModes: [.v6]
)
