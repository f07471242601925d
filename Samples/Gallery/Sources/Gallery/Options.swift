import Foundation
import SampleServer

/// The sample's command line.
struct Options {
    struct Mistake: Error {
        let text: String
    }

    /// The folder that is served.
    var assets = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../../Scrolling/Assets").standardizedFileURL
    /// The cache's folder; `nil` for a temporary one.
    var cache: URL?
    /// Photographs in the list.
    var count = 3_000
    var width = 1_100
    var height = 760
    /// The most that decoded pictures take, in MB.
    var memory = 128
    var port = 0
    var pace = Pace()
    /// Scrolls by itself for so many seconds, and ends.
    var scrollFor: Double?
    var screenshots: URL?
    var report: URL?

    static let help = """
        A window with a long list of photographs, from a server of its own on the loopback interface.
        Arrow keys, Page Up, Page Down, Home and End move the cursor; q ends the program.

        Gallery [options]
          --count N           photographs in the list (default: 3000)
          --rows N            the same in rows of the window as it opens
          --size WxH          of the window as it opens (default: 1100x760)
          --memory MB         the most that decoded pictures may take (default: 128)
          --cache FOLDER      where the cache is kept (default: a temporary folder, removed at the end)
          --port N            the server's port (default: a free one)
          --delay MS          how long the server thinks before it answers (default: 30)
          --rate MB           megabytes per second and connection (default: 2)
          --assets FOLDER     what the server serves (default: the photos of the Scrolling sample)
          --scroll-for S      scrolls by itself, with flings and rests, for S seconds, and ends
          --screenshots DIR   rests until all is there, and saves a picture of the display each time (needs `import`
                              of ImageMagick)
          --report FILE       writes as JSON what was measured, what was on screen and what the server was asked for
          --help              this text

        It ends with status 2 for a wrong option and with 3 if there is no display.
        """

    /// `nil` if only help is wanted.
    init?(_ arguments: some Sequence<String>) throws {
        var rest = arguments.makeIterator()
        var rows: Int?
        while let option = rest.next() {
            func value() throws -> String {
                guard let value = rest.next() else { throw Mistake(text: "\(option) needs a value.") }
                return value
            }
            func folder() throws -> URL { URL(fileURLWithPath: try value(), isDirectory: true) }
            func number<Number: LosslessStringConvertible & Comparable>(_ range: ClosedRange<Number>) throws -> Number {
                let text = try value()
                if let number = Number(text), range.contains(number) { return number }
                throw Mistake(
                    text: "\(option) needs a number from \(range.lowerBound) to \(range.upperBound), not \(text).")
            }
            switch option {
            case "--help", "-h": return nil
            case "--count": count = try number(1...1_000_000)
            case "--rows": rows = try number(1...100_000)
            case "--size": (width, height) = try Self.size(value())
            case "--memory": memory = try number(1...100_000)
            case "--cache": cache = try folder()
            case "--port": port = try number(0...65_535)
            case "--delay": pace.delay = .milliseconds(try number(0...60_000) as Int)
            case "--rate": pace.bytesPerSecond = try number(0.001...10_000) * 1e6
            case "--assets": assets = try folder()
            case "--scroll-for": scrollFor = try number(1...86_400)
            case "--screenshots": screenshots = try folder()
            case "--report": report = URL(fileURLWithPath: try value())
            default: throw Mistake(text: "There is no option \(option).")
            }
        }
        if let rows { count = rows * GridLayout(count: 1, width: width).columns }
    }

    private static func size(_ text: String) throws -> (Int, Int) {
        let parts = text.split(separator: "x").compactMap { Int($0) }
        guard parts.count == 2, (300...8_000).contains(parts[0]), (200...8_000).contains(parts[1]) else {
            throw Mistake(text: "--size needs two numbers such as 1100x760, not \(text).")
        }
        return (parts[0], parts[1])
    }
}
