// swift-tools-version: 6.2
import PackageDescription

let dipper: [Target.Dependency] = ["Dipper", "DipperGTK", "SampleServer"].map { .product(name: $0, package: "Dipper") }

// A package of its own, as that of any program with pictures in its windows: it turns on the trait of the product DipperGTK.
let package = Package(
    name: "Gallery",
    products: [
        // For the benchmark, which scrolls the window.
        .library(name: "GalleryWindow", targets: ["GalleryWindow"])
    ],
    dependencies: [
        .package(name: "Dipper", path: "../..", traits: [.defaults, "GTK"])
    ],
    targets: [
        .target(
            name: "GalleryWindow",
            dependencies: dipper,
            resources: [.embedInCode("Gallery.ui"), .embedInCode("Gallery.css")]),
        .executableTarget(
            name: "Gallery",
            dependencies: dipper + ["GalleryWindow", .product(name: "DipperInspector", package: "Dipper")]),
        .testTarget(name: "GalleryTests", dependencies: dipper + ["Gallery", "GalleryWindow"]),
    ],
    swiftLanguageModes: [.v6]
)
