// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that the other benchmarks need no hiredis.
let package = Package(
    name: "SharingBench",
    dependencies: [.package(name: "Dipper", path: "../..", traits: [.defaults, "Redis"])],
    targets: [
        .executableTarget(
            name: "SharingBench",
            dependencies: [
                .product(name: "DipperData", package: "Dipper"),
                .product(name: "DipperRedis", package: "Dipper"),
            ])
    ],
    swiftLanguageModes: [.v6]
)
