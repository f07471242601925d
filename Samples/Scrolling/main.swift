// A replay of a person who scrolls through a list of photos: photos on screen come first, prefetches use the remaining
// capacity, and nothing is fetched twice. `Scrolling --help` lists the options.
import Foundation

do {
    guard let options = try Options(CommandLine.arguments.dropFirst()) else {
        print(Options.help)
        exit(0)
    }
    exit(try await Sample(options).run() ? 0 : 1)
} catch let error as Options.Mistake {
    FileHandle.standardError.write(Data("\(error.text)\n\n\(Options.help)\n".utf8))
    exit(2)
} catch {
    FileHandle.standardError.write(Data("Scrolling: \(error)\n".utf8))
    exit(1)
}
