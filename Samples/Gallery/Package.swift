// swift-tools-version: 6.2
import PackageDescription

// The sample is a package of its own, so that building the library needs no GTK.
let package = Package(
    name: "Gallery",
    dependencies: [
        .package(name: "Dipper", path: "../..")
    ],
    targets: [
        .systemLibrary(name: "CGTK", pkgConfig: "gtk4", providers: [.apt(["libgtk-4-dev"])]),
        .executableTarget(
            name: "Gallery",
            dependencies: [
                "CGTK",
                .product(name: "Dipper", package: "Dipper"),
                .product(name: "SampleServer", package: "Dipper"),
            ]),
        .testTarget(
            name: "GalleryTests",
            dependencies: [
                "Gallery",
                .product(name: "Dipper", package: "Dipper"),
                .product(name: "SampleServer", package: "Dipper"),
            ]),
    ],
    swiftLanguageModes: [.v6]
)
