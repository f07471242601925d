/// A fetch of files by one queue of a cache, in a child process.
enum QueueFetch {
    static let slow = "slowQueue"
    static let filling = "slowQueue, .fillsLink(upTo: 6)"
    static let fast = "fastQueue"

    /// The milliseconds from the request to a file's end and to its first byte, and the file's size in bytes.
    typealias Fetched = (end: Double, first: Double, bytes: Double)

    /// Fetches files in a child process.
    /// - Parameter run: A function that runs this program with arguments.
    static func run(
        _ arguments: [String], _ queue: String, _ base: String, _ certificate: String?,
        _ run: ([String]) throws -> Command.Output
    ) throws -> [Fetched] {
        var arguments = ["throughput-child", "--base", base] + arguments
        if let certificate { arguments += ["--certificate", certificate] }
        if queue != fast { arguments.append("--slow") }
        if queue == filling { arguments.append("--fills") }
        let output = try run(arguments).output
        return try output.split(separator: "\n").map { line in
            let numbers = line.split(separator: " ").compactMap { Double($0) }
            guard numbers.count == 3 else { throw BenchError("the child printed \(output)") }
            return (numbers[0], numbers[1], numbers[2])
        }
    }
}
