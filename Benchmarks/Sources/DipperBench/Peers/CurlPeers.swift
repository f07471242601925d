import Foundation

/// The peers libcurl in C and curl's parallel mode. All measurements are in files per second.
struct CurlPeers {
    private let loop: String
    private let curl: String
    private let list: String
    private let single: String
    private let base: String
    private let count: Int

    /// Compiles the loop in C and writes the lists of URLs for curl.
    init(_ bench: Bench, base: String, urls: [String]) throws {
        self.base = base
        count = urls.count
        loop = try bench.compile("curl_loop", "libcurl")
        curl = try Command.require("curl")
        list = bench.work.appendingPathComponent("urls.curl").path
        single = bench.work.appendingPathComponent("url.curl").path
        func lines(_ urls: [String]) -> Data {
            Data(urls.map { "url = \"\($0)\"\noutput = /dev/null\n" }.joined().utf8)
        }
        try lines(urls).write(to: URL(fileURLWithPath: list))
        try lines(Array(urls.prefix(1))).write(to: URL(fileURLWithPath: single))
    }

    func multiLoop(atOnce: Int) throws -> Double {
        Double(count) / (try Command.number(loop, [base, "\(count)", "\(atOnce)"]))
    }

    /// Measures the whole command, including the start of its process.
    func parallel(atOnce: Int) throws -> Double {
        Double(count) / (try time(list, atOnce))
    }

    /// Measures the command without the start of its process, by subtracting the time of a command that fetches one
    /// file.
    func parallelWithoutStart(atOnce: Int) throws -> Double {
        let one = try time(single, atOnce)
        return Double(count - 1) / (try time(list, atOnce) - one)
    }

    private func time(_ list: String, _ atOnce: Int) throws -> Double {
        try seconds {
            try Command.run(
                curl,
                [
                    "-q", "-sS", "-f", "--parallel", "--parallel-immediate", "--parallel-max", "\(atOnce)",
                    "-K", list,
                ])
        }
    }
}
