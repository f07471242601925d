import Foundation

/// Writes a line to standard output at once.
public func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }

/// The options of a test program: pairs of a name and a value.
public struct Options {
    private let values: [String: String]

    /// Reads the command line, and ends the program if `usage` does not have one of the options.
    public init(usage: String) {
        let words = Array(CommandLine.arguments.dropFirst())
        let names = stride(from: 0, to: words.count, by: 2).map { words[$0] }
        guard words.count.isMultiple(of: 2), names.allSatisfy({ $0.hasPrefix("--") && usage.contains("\($0) ") }) else {
            FileHandle.standardError.write(Data("usage: \(usage)\n".utf8))
            exit(64)
        }
        values = Dictionary(zip(names, words.enumerated().filter { !$0.offset.isMultiple(of: 2) }.map(\.element))) {
            $1
        }
    }

    public subscript<Value: LosslessStringConvertible>(name: String) -> Value? { values[name].flatMap { Value($0) } }
}
