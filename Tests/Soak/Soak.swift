import Foundation
import TortureSupport

/// Makes random calls to both caches for a long time while resources fail, and checks that nothing leaks.
///
///     Soak [--minutes N] [--seed N]
///
/// `SoakRun.swift` lists the calls and the failures, `Sample.swift` the allowed growth.
@main
struct Soak {
    static func main() async throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        if arguments.count == 2, arguments[0] == "serve", let port = Int(arguments[1]) {
            await Server.serve(port)
        }
        let options = Options(usage: "Soak [--minutes N] [--seed N]")
        // Releases the run, and with it its disk.
        let isSound = try await SoakRun(
            minutes: options["--minutes"] ?? 60, seed: options["--seed"] ?? UInt64.random(in: 0..<1_000_000)
        ).run()
        exit(isSound ? 0 : 1)
    }
}
