import Foundation

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
        var minutes = 60.0
        var seed = UInt64.random(in: 0..<1_000_000)
        for index in stride(from: 0, to: arguments.count, by: 2) {
            switch (arguments[index], index + 1 < arguments.count ? arguments[index + 1] : "") {
            case ("--minutes", let value): minutes = Double(value) ?? minutes
            case ("--seed", let value): seed = UInt64(value) ?? seed
            default:
                FileHandle.standardError.write(Data("usage: Soak [--minutes N] [--seed N]\n".utf8))
                exit(64)
            }
        }
        let isSound = try await SoakRun(minutes: minutes, seed: seed).run()
        exit(isSound ? 0 : 1)
    }
}

/// Writes a line to standard output at once.
func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
