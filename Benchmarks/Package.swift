// swift-tools-version: 6.1
import PackageDescription

let package = Package(
    name: "Benchmarks",
    dependencies: [
        .package(name: "Dipper", path: ".."),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    ],
    targets: [
        // The checksum of the layout prototype: the same function as the library's.
        .systemLibrary(
            name: "CBenchHash", pkgConfig: "libxxhash", providers: [.apt(["libxxhash-dev"])]),
        // libjpeg-turbo and libpng in C, in the same process as ours.
        .target(
            name: "CPicturePeers", linkerSettings: [.linkedLibrary("jpeg"), .linkedLibrary("png")]),
        // Links to the library's scheduler: a generic type is specialised for its arguments only in the module that holds
        // its source. Called across modules the scheduler would run several times slower than in the library.
        .target(
            name: "SchedulerLoad",
            dependencies: [
                .product(name: "DipperData", package: "Dipper"),
                .product(name: "HeapModule", package: "swift-collections"),
            ]),
        .executableTarget(
            name: "dipper-bench",
            dependencies: [
                "CBenchHash", "CPicturePeers", "SchedulerLoad",
                .product(name: "Dipper", package: "Dipper"),
                .product(name: "DipperData", package: "Dipper"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Sources/DipperBench"),
    ],
    swiftLanguageModes: [.v6]
)
