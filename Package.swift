// swift-tools-version: 6.2
import PackageDescription

// The tests do without the trait Tracing, because SwiftPM compiles everything again when a trait is turned on or off.
let isTested = Context.environment["DIPPER_TESTS"] != nil

let package = Package(
    name: "Dipper",
    products: [
        .library(name: "Dipper", targets: ["Dipper"]),
        .library(name: "DipperData", targets: ["DipperData"]),
        .library(name: "DipperTesting", targets: ["DipperTesting"]),
        .library(name: "DipperInspector", targets: ["DipperInspector"]),
        // Empty without the trait GTK.
        .library(name: "DipperGTK", targets: ["DipperGTK"]),
        // Empty without the trait Redis.
        .library(name: "DipperRedis", targets: ["DipperRedis"]),
        // Empty without the trait Tracing.
        .library(name: "DipperTracing", targets: ["DipperTracing"]),
        // The helper of programs that have pictures decoded apart and are not their own helper.
        .executable(name: "dipper-decoder", targets: ["dipper-decoder"]),
        // For the Gallery sample and its benchmark, which are packages of their own.
        .library(name: "SampleServer", targets: ["SampleServer"]),
    ],
    // The optional formats, each with the library that reads it, the widgets, and the tier on Redis.
    traits: [
        .trait(name: "GIF", description: "GIF by giflib"),
        .trait(name: "WebP", description: "WebP by libwebp"),
        .trait(name: "AVIF", description: "AVIF by libavif"),
        .trait(name: "HEIC", description: "HEIC by libheif"),
        .trait(name: "JXL", description: "JPEG XL by libjxl"),
        .trait(name: "SVG", description: "SVG by librsvg"),
        .trait(name: "GTK", description: "The product DipperGTK: pictures in GTK 4"),
        .trait(name: "Redis", description: "The product DipperRedis: a tier that machines share, on Redis or Valkey"),
        .trait(name: "Tracing", description: "The product DipperTracing: traces by swift-distributed-tracing"),
        .default(enabledTraits: ["GIF", "WebP", "AVIF"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        // For the trait Tracing alone: without it, a program that depends on this package does not resolve it.
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    ],
    targets: [
        .systemLibrary(
            name: "CCurl", pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(
            name: "CCrypto", pkgConfig: "libcrypto",
            providers: [.apt(["libssl-dev"])]),
        .systemLibrary(
            name: "CXXHash", pkgConfig: "libxxhash",
            providers: [.apt(["libxxhash-dev"])]),
        .systemLibrary(
            name: "CMnl", pkgConfig: "libmnl",
            providers: [.apt(["libmnl-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
        .systemLibrary(name: "CBrotli", pkgConfig: "libbrotlidec", providers: [.apt(["libbrotli-dev"])]),
        .systemLibrary(name: "CPNG", pkgConfig: "libpng", providers: [.apt(["libpng-dev"])]),
        .systemLibrary(name: "CJPEG", pkgConfig: "libjpeg", providers: [.apt(["libjpeg-dev"])]),
        .systemLibrary(name: "CLCMS", pkgConfig: "lcms2", providers: [.apt(["liblcms2-dev"])]),
        .systemLibrary(name: "CPixman", pkgConfig: "pixman-1", providers: [.apt(["libpixman-1-dev"])]),
        // giflib has no pkg-config file.
        .systemLibrary(name: "CGIF", providers: [.apt(["libgif-dev"])]),
        .systemLibrary(name: "CWebP", pkgConfig: "libwebp", providers: [.apt(["libwebp-dev"])]),
        // libavif's pkg-config file contains flags that SwiftPM rejects, so it is not named here.
        .systemLibrary(name: "CAVIF", providers: [.apt(["libavif-dev"])]),
        // The formats below are left out by default. libheif is told of a decoder that uses libde265 without its threads.
        .systemLibrary(name: "CHEIF", providers: [.apt(["libheif-dev", "libde265-dev"])]),
        .systemLibrary(name: "CJXL", providers: [.apt(["libjxl-dev"])]),
        .systemLibrary(name: "CRSVG", pkgConfig: "librsvg-2.0", providers: [.apt(["librsvg2-dev"])]),
        // hiredis's pkg-config file contains flags that SwiftPM rejects, so it is not named here.
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
        .systemLibrary(name: "CSSL", pkgConfig: "libssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CGTK4", pkgConfig: "gtk4", providers: [.apt(["libgtk-4-dev"])]),
        // The calls of libpng and libjpeg that report errors by longjmp, which Swift cannot catch.
        .target(name: "CodecShims", dependencies: ["CFastPNG", "CPNG", "CJPEG", "CZlib"]),
        // The pixels of most PNG files, faster than by libpng, which does the others.
        .target(name: "CFastPNG", dependencies: ["CZlib"]),
        // Loops over pixels, compiled for several instruction sets; the best one of the machine runs.
        .target(name: "CPixels"),
        // System calls for processes and files. The C library declares them only for GNU's dialect, which Swift does not
        // see.
        .target(name: "ProcessShims"),
        .target(
            name: "DipperData",
            dependencies: [
                "CBrotli", "CCrypto", "CCurl", "CMnl", "CSQLite", "CXXHash", "CZlib", "CZstd", "ProcessShims",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
            ]),
        .target(
            name: "Dipper",
            dependencies: [
                "DipperData", "CFastPNG", "CodecShims", "CPixels", "ProcessShims", "CLCMS", "CPixman", "CXXHash",
                .target(name: "CGIF", condition: .when(traits: ["GIF"])),
                .target(name: "CWebP", condition: .when(traits: ["WebP"])),
                .target(name: "CAVIF", condition: .when(traits: ["AVIF"])),
                .target(name: "CHEIF", condition: .when(traits: ["HEIC"])),
                .target(name: "CJXL", condition: .when(traits: ["JXL"])),
                .target(name: "CRSVG", condition: .when(traits: ["SVG"])),
            ]),
        .target(name: "DipperTesting", dependencies: ["Dipper", "DipperData"]),
        .target(name: "DipperInspector", dependencies: ["Dipper", "DipperData", "ProcessShims"]),
        .target(
            name: "DipperTracing",
            dependencies: [
                "DipperData",
                .product(
                    name: "Tracing", package: "swift-distributed-tracing",
                    condition: isTested ? nil : .when(traits: ["Tracing"])),
            ],
            swiftSettings: isTested ? [.define("Tracing")] : []),
        // The classes of GTK, whose macros and variable arguments Swift does not see. SwiftPM builds every target of the
        // package that it is run in, so without the trait the sources of both targets are empty: nothing needs GTK then.
        .target(
            name: "GTKShims",
            dependencies: [.target(name: "CGTK4", condition: .when(traits: ["GTK"]))],
            cSettings: [.define("DIPPER_GTK", .when(traits: ["GTK"]))]),
        .target(
            name: "DipperGTK",
            dependencies: [
                "CPixels", "Dipper", "GTKShims",
                .target(name: "CGTK4", condition: .when(traits: ["GTK"])),
            ]),
        .target(
            name: "DipperRedis",
            dependencies: [
                "DipperData", "ProcessShims",
                .target(name: "CHiredis", condition: .when(traits: ["Redis"])),
                .target(name: "CSSL", condition: .when(traits: ["Redis"])),
            ]),
        // No product: who depends on this package does not resolve what only the tool needs.
        .executableTarget(
            name: "dipper",
            dependencies: [
                "Dipper", "DipperInspector", "DipperRedis",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Sources/DipperCLI"),
        .executableTarget(name: "dipper-decoder", dependencies: ["Dipper"], path: "Sources/DipperDecoder"),
        .target(name: "SampleServer", path: "Samples/SampleServer"),
        .executableTarget(
            name: "Scrolling",
            dependencies: ["Dipper", "DipperInspector", "SampleServer"],
            path: "Samples/Scrolling",
            exclude: ["Assets"]),
    ],
    swiftLanguageModes: [.v6]
)

// For `make docs` alone, so that nobody else resolves it.
if Context.environment["DIPPER_DOCS"] != nil {
    package.dependencies.append(.package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.5.0"))
}

// The tests and what only they need, with the sample CacheProxy: for `make test`, so that who builds the library, the tool
// or another sample neither resolves nor plans them. The variable is `all`, or names the one target whose tests are built,
// such as `Behaviour`, because tests take longer to compile than the code that they test.
if let tests = Context.environment["DIPPER_TESTS"] {
    package.dependencies.append(.package(url: "https://github.com/apple/swift-nio", from: "2.101.0"))
    package.targets += [
        .executableTarget(
            name: "CacheProxy",
            dependencies: [
                "DipperData", "DipperInspector",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            path: "Samples/CacheProxy"),
        .target(
            name: "FaultServer",
            dependencies: [
                "CZlib", "DipperTesting",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            path: "Tests/FaultServer"),
        // Programs that show that the store survives failures; see torture, powercut and soak in the Makefile.
        .target(name: "TortureSupport", path: "Tests/TortureSupport"),
        .executableTarget(
            name: "StoreTorture", dependencies: ["DipperData", "FaultServer", "TortureSupport"],
            path: "Tests/StoreTorture"),
        // Records a process's changes to its files. In C, because its functions replace those of the C library.
        .target(name: "WriteLog", path: "Tests/WriteLog"),
        .executableTarget(
            name: "PowerCut", dependencies: ["DipperData", "DipperTesting", "TortureSupport", "WriteLog"],
            path: "Tests/PowerCut"),
        .executableTarget(
            name: "Soak", dependencies: ["CZlib", "Dipper", "DipperTesting", "FaultServer", "TortureSupport"],
            path: "Tests/Soak"),
        .executableTarget(
            name: "NetworkProbe", dependencies: ["DipperData", "FaultServer"], path: "Tests/NetworkProbe"),
        .executableTarget(
            name: "MemoryProbe",
            dependencies: ["DipperData", .product(name: "Logging", package: "swift-log")], path: "Tests/MemoryProbe"),
        // A link between network namespaces, for tests and benchmarks. A program in C.
        .executableTarget(name: "ShapedLink", path: "Tests/ShapedLink"),
        // Records which files were flushed to the device. In C, because its functions replace those of the C library.
        .target(name: "FlushLog", path: "Tests/FlushLog"),
        .target(name: "FuzzDriver", path: "Fuzzing/FuzzDriver"),
        .executableTarget(
            name: "DipperFuzz", dependencies: ["Dipper", "DipperData", "FuzzDriver"], path: "Fuzzing/DipperFuzz"),
        // A helper that decodes a format of attacks on its wall, with their system calls, in C.
        .target(name: "HostileCalls", path: "Tests/HostileCalls"),
        .target(name: "HostileDecoding", dependencies: ["Dipper", "HostileCalls"], path: "Tests/HostileDecoding"),
        .executableTarget(
            name: "HostileDecoder", dependencies: ["Dipper", "HostileDecoding"], path: "Tests/HostileDecoder"),
        // Helpers of all test targets: for waiting, counting and files.
        .target(
            name: "TestSupport",
            dependencies: [
                "CCrypto", "Dipper", "DipperData", "DipperTesting", "ProcessShims", "TortureSupport",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Tests/TestSupport"),
        // The promises of the README and the guides, by the public API alone: no `@testable`, so that the inside can be
        // rebuilt without touching them.
        .testTarget(
            name: "BehaviourTests",
            dependencies: [
                "CZlib", "Dipper", "dipper", "DipperData", "DipperInspector", "DipperTesting", "DipperTracing",
                "FaultServer", "MemoryProbe", "NetworkProbe", "ShapedLink", "TestSupport",
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
            ],
            path: "Tests/Behaviour"),
        .testTarget(
            name: "DipperDataTests",
            dependencies: ["DipperData", "DipperTesting", "FlushLog", "TestSupport"]),
        .testTarget(
            name: "DipperTests",
            dependencies: [
                "CFastPNG", "CPixels", "CZlib", "CodecShims", "Dipper", "dipper-decoder", "DipperInspector",
                "DipperTesting", "FaultServer", "HostileCalls", "HostileDecoder", "HostileDecoding",
                "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ],
            resources: [.copy("Pictures")]),
        .testTarget(
            name: "DipperCLITests",
            dependencies: [
                "CacheProxy", "Dipper", "dipper", "DipperTesting", "FaultServer", "Scrolling", "TestSupport",
            ]),
        // The examples of the documentation comments, which `make` puts into one file: they are compiled, not run, and
        // declare what they do not use.
        .testTarget(
            name: "DocExamplesTests",
            dependencies: ["Dipper", "DipperInspector", "DipperTesting", "DipperTracing"],
            path: "Tests/DocExamples",
            swiftSettings: [.unsafeFlags(["-suppress-warnings"])]),
    ]
    // The tests of the widgets need GTK and the trait, so `all` leaves them out; see `gtk` in the Makefile.
    if tests == "GTK" {
        package.targets += [
            .target(name: "GTKTestShims", dependencies: ["CGTK4"], path: "Tests/GTKTestShims"),
            .executableTarget(name: "PictureInC", dependencies: ["DipperGTK", "GTKShims"], path: "Tests/PictureInC"),
            // The programs of the guide.
            .executableTarget(name: "FirstPicture", dependencies: ["DipperGTK"], path: "Samples/GTK/FirstPicture"),
            .executableTarget(name: "FirstList", dependencies: ["Dipper", "DipperGTK"], path: "Samples/GTK/FirstList"),
            .testTarget(
                name: "GTKTests",
                dependencies: [
                    "CGTK4", "DipperGTK", "DipperTesting", "FirstList", "FirstPicture", "GTKTestShims", "PictureInC",
                    "TestSupport",
                ]),
        ]
    }
    // Likewise those of the tier on Redis; see `redis` in the Makefile.
    if tests == "Redis" {
        package.targets.append(
            .testTarget(
                name: "RedisTests",
                dependencies: [
                    "Dipper", "dipper", "DipperRedis", "DipperTesting", "FaultServer", "TestSupport",
                    .product(name: "Logging", package: "swift-log"),
                ]))
    }
    if tests != "all" {
        let only = tests.hasSuffix("Tests") ? tests : tests + "Tests"
        precondition(package.targets.contains { $0.isTest && $0.name == only }, "there are no tests called \(only)")
        package.targets.removeAll { $0.isTest && $0.name != only }
    }
}
