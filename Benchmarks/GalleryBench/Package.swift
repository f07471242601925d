// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that the other benchmarks need no GTK.
let package = Package(
    name: "GalleryBench",
    dependencies: [
        .package(name: "Dipper", path: "../..", traits: [.defaults, "GTK"]),
        .package(name: "Gallery", path: "../../Samples/Gallery"),
    ],
    targets: [
        .executableTarget(
            name: "GalleryBench",
            dependencies: [
                .product(name: "Dipper", package: "Dipper"),
                .product(name: "DipperGTK", package: "Dipper"),
                .product(name: "GalleryWindow", package: "Gallery"),
                .product(name: "SampleServer", package: "Dipper"),
            ])
    ],
    swiftLanguageModes: [.v6]
)
