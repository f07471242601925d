import Foundation

/// libcurl in C, and curl's own parallel mode. Both return files per second.
struct CurlPeers {
    private let loop: String
    private let curl: String
    private let list: String
    private let single: String
    private let base: String
    private let count: Int

    /// Compiles the loop.
    init(_ bench: Bench, base: String, urls: [String]) throws {
        self.base = base
        count = urls.count
        loop = bench.work.appendingPathComponent("curl_loop").path
        curl = try Command.require("curl")
        let compiler = try Command.require("gcc")
        try Command.run(compiler, ["-O2", "-Wall", "-o", loop, bench.peer("curl_loop.c"), "-lcurl"])
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

    /// The command as a whole, the start of its process included.
    func parallel(atOnce: Int) throws -> Double {
        Double(count) / (try time(list, atOnce))
    }

    /// The time of one file taken off, so that the start of the process does not count.
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
