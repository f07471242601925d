import Foundation
import SampleServer

struct Options {
    struct Mistake: Error {
        let text: String
    }

    var assets = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../../Scrolling/Assets").standardizedFileURL
    /// The cache's folder; `nil` for a temporary one.
    var cache: URL?
    var count = 3_000
    var width = 1_100
    var height = 760
    /// The memory limit for decoded pictures, in MiB.
    var memory = 128
    var port = 0
    var pace = Pace()
    /// The number of seconds to scroll by the script before the program ends; `nil` for no script.
    var scrollFor: Double?
    var screenshots: URL?
    var report: URL?

    static let help = """
        Opens a window with a long list of photographs, from its own server on the loopback interface.
        Arrow keys, Page Up, Page Down, Home and End move the cursor; q ends the program.

        Gallery [options]
          --count N           the number of photographs in the list (default: 3000)
          --rows N            the number of photographs as rows of the initial window, in place of --count
          --size WxH          the initial size of the window (default: 1100x760)
          --memory MB         the memory limit for decoded pictures, in MiB (default: 128)
          --cache FOLDER      the folder of the cache (default: a temporary folder, removed at the end)
          --port N            the server's port (default: any free port)
          --delay MS          the server's delay before each answer, in milliseconds (default: 30)
          --rate MB           the server's speed in megabytes per second and connection (default: 2)
          --assets FOLDER     the folder that the server serves (default: the photos of the Scrolling sample)
          --scroll-for S      scroll by a script, with flings and rests, for S seconds, then end
          --screenshots DIR   at each rest of the script, wait for all visible photographs and save a screenshot in this
                              folder (needs `import` of ImageMagick)
          --report FILE       write measurements, visible photographs and the server's requests to this file, as JSON
          --help              print this text

        The exit status is 2 for a wrong option, and 3 if there is no display.
        """

    /// Reads the command line; `nil` if it only asks for help.
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
