import Dipper
import Foundation

/// The measurement of the time from the last byte of a photograph to its picture, on a link that is slower than the
/// decoder.
struct Arriving: Comparison {
    let name = "arriving"
    let title = "Photographs that arrive"

    private static let shape = ShapedLink.Shape(rate: 100, roundTrip: 10, queue: 512 << 10)
    private static let count = 12

    func run(_ bench: Bench) async throws -> [Table] {
        let photograph = try Data(contentsOf: SamplePictures(bench).jpeg)
        let link = try ShapedLink(bench, Self.shape)
        defer { link.end() }
        let files = LinkServer.Files(
            folder: "photograph", count: Self.count, size: photograph.count, contents: [photograph])
        let server = try await LinkServer(bench, link, [files])
        defer { server.end() }
        let sizes = [("to 400 × 300", "400"), ("whole", "0")]
        var (after, alone, whole): ([String: [Double]], [String: [Double]], [String: [Double]]) = ([:], [:], [:])
        for _ in 0..<bench.rounds(3) {
            for (size, width) in sizes {
                try await link.settle()
                let output = try link.runAtClient(
                    Command.myself,
                    [
                        "arriving-child", "--base", "\(LinkServer.Version.http1.base)/photograph", "--count",
                        "\(Self.count)", "--width", width,
                    ])
                let numbers = try output.numbers(3)
                after[size, default: []].append(numbers[0])
                alone[size, default: []].append(numbers[1])
                whole[size, default: []].append(numbers[2])
            }
        }
        func median(_ values: [String: [Double]], _ size: String) -> Double { (values[size] ?? []).median }
        func row(_ text: String, _ values: [String: [Double]]) -> [String] {
            [text] + sizes.map { median(values, $0.0).short }
        }
        var table = Table(
            "From the last byte of a 12 MP photograph to its picture",
            says:
                "Milliseconds, medians of \(Self.count) photographs one after the other. Link: \(Self.shape.description). "
                + "The decode alone has the whole file in memory, in the same process.",
            header: [""] + sizes.map(\.0),
            rows: [
                row("last byte to picture", after), row("decode alone", alone), row("request to picture", whole),
            ])
        table.checks = sizes.map { size, _ in
            Check(
                "last byte to picture ÷ decode alone, \(size)", median(after, size) / median(alone, size), .atMost, 0.3)
        }
        return [table]
    }
}
