// swift-tools-version: 6.2
import PackageDescription

// Uses only the public interface of the library, so that a change inside the library cannot break it.
let package = Package(
    name: "Benchmarks",
    dependencies: [
        .package(name: "Dipper", path: ".."),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    ],
    targets: [
        // libjpeg-turbo and libpng in C, in the same process as ours.
        .target(
            name: "CPicturePeers", linkerSettings: [.linkedLibrary("jpeg"), .linkedLibrary("png")]),
        .executableTarget(
            name: "dipper-bench",
            dependencies: [
                "CPicturePeers",
                .product(name: "Dipper", package: "Dipper"),
                .product(name: "DipperData", package: "Dipper"),
                .product(name: "DipperInspector", package: "Dipper"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            path: "Sources/DipperBench"),
    ],
    swiftLanguageModes: [.v6]
)
