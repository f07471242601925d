// swift-tools-version: 6.2
import PackageDescription

// A package of its own, because the benchmark shall not wait for the compilation of BoringSSL.
let package = Package(
    name: "AsyncHTTPClientPeer",
    dependencies: [.package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0")],
    targets: [
        .executableTarget(
            name: "async-http-client-loop",
            dependencies: [.product(name: "AsyncHTTPClient", package: "async-http-client")],
            path: "Sources")
    ],
    swiftLanguageModes: [.v6]
)
