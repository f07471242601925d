// swift-tools-version: 6.1
import PackageDescription

// Built with `--sanitize=address --sanitize=fuzzer`, which brings the program's main function; see the Makefile.
let package = Package(
    name: "Fuzzing",
    dependencies: [.package(name: "Dipper", path: "..")],
    targets: [
        .executableTarget(
            name: "dipper-fuzz", dependencies: [.product(name: "Dipper", package: "Dipper")],
            path: "Sources/DipperFuzz", swiftSettings: [.unsafeFlags(["-parse-as-library"])])
    ],
    swiftLanguageModes: [.v6]
)
