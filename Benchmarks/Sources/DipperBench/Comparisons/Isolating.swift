import Dipper
import Foundation

/// The comparison of pictures that helper processes decode with those that the program decodes itself.
struct Isolating: Comparison {
    let name = "isolation"
    let title = "Decoding apart"

    private static let here = "in the program"
    private static let apart = "by a helper"
    private static let photo = "JPEG of 12 megapixels to 400 × 300"
    private static let thumbnail = "JPEG of 20 KB"
    private static let target = TargetSize(width: 400, height: 300)

    func run(_ bench: Bench) async throws -> [Table] {
        let pictures = try SamplePictures(bench)
        let thumbnail = try Self.thumbnail(of: pictures, in: bench)
        return [
            try await speed(bench, try Data(contentsOf: pictures.jpeg), try Data(contentsOf: thumbnail)),
            try memory(bench, pictures.jpeg), try crashes(bench, thumbnail),
        ]
    }

    /// A picture of 400 by 300 pixels, in the best quality that 20 KB have room for.
    private static func thumbnail(of pictures: SamplePictures, in bench: Bench) throws -> URL {
        let image = try Image(data: Data(contentsOf: pictures.jpeg), DecodeOptions(target: target))
        let files = try (1...19).map { try image.encoded(as: .jpeg(quality: Double($0) * 0.05)) }
        guard let file = files.last(where: { $0.count <= 20_000 }) else { throw BenchError("no picture has 20 KB") }
        let path = bench.work.appendingPathComponent("thumbnail.jpg")
        try file.write(to: path)
        return path
    }

    // MARK: Speed

    private func speed(_ bench: Bench, _ photo: Data, _ thumbnail: Data) async throws -> Table {
        func competitors(_ data: Data, _ target: TargetSize?, times: Int) -> [Competitor] {
            [(Self.here, Isolation.off), (Self.apart, .required)].map { name, isolation in
                var options = DecodeOptions(target: target)
                options.isolation = isolation
                return Competitor(name: name) { [options] in
                    try seconds {
                        for _ in 0..<times { keep(try CodecRegistry.standard.decode(data, options)) }
                    } * 1e3 / Double(times)
                }
            }
        }
        try await Self.checkPosture()
        var figures = Figures()
        try await figures.measure(
            Self.photo, rounds: bench.rounds(31), competitors(photo, Self.target, times: 1))
        try await figures.measure(
            Self.thumbnail, rounds: bench.rounds(61), competitors(thumbnail, nil, times: 20))
        var table = Table(
            "The same picture, in the program and by a helper", says: "Milliseconds of the clock, one after the other.",
            unit: "ms", competitors: [Self.here, Self.apart], settings: [Self.photo, Self.thumbnail], figures: figures)
        let more = figures[Self.apart, Self.thumbnail] - figures[Self.here, Self.thumbnail]
        table.checks = [
            Check("\(Self.photo): helper ÷ program", figures.ratio(Self.apart, Self.here, Self.photo), .atMost, 1.05),
            Check("\(Self.thumbnail): helper − program", more, .atMost, 0.3, " ms"),
        ]
        return table
    }

    private static func checkPosture() async throws {
        var configuration = ImageCache.Configuration()
        configuration.isolation = .required
        let cache = ImageCache(configuration)
        let posture = await cache.isolationPosture
        await cache.shutdown()
        guard posture.isComplete else { throw Unsuitable("\(posture)") }
    }

    // MARK: Memory

    private func memory(_ bench: Bench, _ photo: URL) throws -> Table {
        let runs = try (0..<bench.rounds(3)).map { _ in
            try Command.run(Command.myself, ["isolation-child", "--file", photo.path, "--memory"]).numbers(3)
        }
        func most(_ column: Int) -> Double { runs.map { $0[column] }.max() ?? .nan }
        var table = Table(
            "Memory", says: "Of a program that decodes one picture of 12 megapixels to 400 × 300, and of its helper.",
            header: ["", "most"],
            rows: [
                ["the program's peak beyond its start, MB", most(0).short],
                ["the helper at rest, its part of what processes share (PSS), MB", most(1).short],
                ["the helper at rest, with all that it shares (RSS), MB", most(2).short],
            ])
        let target = Double(Self.target.size.width * Self.target.size.height * 4) / 1_048_576
        table.checks = [
            Check("peak of the program", most(0), .atMost, target + 32, " MB"),
            Check("a helper at rest", most(1), .atMost, 8, " MB"),
        ]
        return table
    }

    // MARK: Crashes

    private func crashes(_ bench: Bench, _ thumbnail: URL) throws -> Table {
        let count = 10_000
        func run(_ options: [String]) throws -> [Double] {
            let arguments = ["isolation-child", "--file", thumbnail.path, "--count", "\(count)"] + options
            return try Command.run(Command.myself, arguments).numbers(5)
        }
        let (plain, crashing) = (try run([]), try run(["--crashes"]))
        var table = Table(
            "10,000 decodes, of which every tenth kills its helper",
            says:
                "A program decodes one picture after the other; what is wrong, and what is left when the helpers have ended, half a minute later.",
            header: ["", "no crash", "every tenth"],
            rows: zip(
                ["seconds", "wrong results", "descriptors left", "processes left", "memory left, MB"],
                zip(plain, crashing)
            ).map { [$0, $1.0.short, $1.1.short] })
        table.checks = [
            Check("time with crashes ÷ without", crashing[0] / plain[0], .atMost, 2),
            Check("wrong results", plain[1] + crashing[1], .atMost, 0, ""),
            Check("descriptors and processes left", crashing[2] + crashing[3], .atMost, 0, ""),
            Check("memory left", crashing[4], .atMost, 16, " MB"),
        ]
        return table
    }
}
