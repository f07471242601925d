import Foundation
import SampleServer

struct Options {
    struct Mistake: Error {
        let text: String
    }

    var assets = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Assets")
    var cache: URL?
    var timeline = URL(fileURLWithPath: "timeline.svg")
    /// The file of the contact sheet, a picture of all photos.
    var contactSheet: URL { timeline.deletingLastPathComponent().appendingPathComponent("contact-sheet.png") }
    var port = 0
    var pace = Pace()
    var isInspected = false

    static let help = """
        Replays a person who scrolls through a list of photos, with its own server, and draws a timeline of the cache's
        fetches. The thumbnails are written to contact-sheet.png in the folder of the timeline.

        Scrolling [options]
          --timeline FILE  the file of the timeline (default: timeline.svg)
          --cache FOLDER   the folder of the cache (default: a temporary folder, removed at the end)
          --port N         the server's port (default: any free port); a second run with the same port and the same
                           cache folder finds everything in the cache
          --delay MS       the server's delay before each answer, in milliseconds (default: 30)
          --rate MB        the server's speed in megabytes per second and connection (default: 2)
          --inspect        open a live page about the cache, which stays until a line is entered
          --assets FOLDER  the folder that the server serves (default: the sample's photos)
          --help           print this text

        The exit status is 1 if bytes or pictures are wrong, or a URL was fetched twice.
        """

    /// Reads the command line; `nil` if it only asks for help.
    init?(_ arguments: some Sequence<String>) throws {
        var rest = arguments.makeIterator()
        while let option = rest.next() {
            func value() throws -> String {
                guard let value = rest.next() else { throw Mistake(text: "\(option) needs a value.") }
                return value
            }
            func number<Number: LosslessStringConvertible & Comparable>(_ range: ClosedRange<Number>) throws
                -> Number
            {
                let text = try value()
                guard let number = Number(text), range.contains(number) else {
                    throw Mistake(
                        text:
                            "\(option) needs a number from \(range.lowerBound) to \(range.upperBound), not \(text)."
                    )
                }
                return number
            }
            switch option {
            case "--help", "-h": return nil
            case "--assets": assets = URL(fileURLWithPath: try value(), isDirectory: true)
            case "--cache": cache = URL(fileURLWithPath: try value(), isDirectory: true)
            case "--timeline": timeline = URL(fileURLWithPath: try value())
            case "--inspect": isInspected = true
            case "--port": port = try number(0...65_535)
            case "--delay": pace.delay = .milliseconds(try number(0...60_000) as Int)
            case "--rate": pace.bytesPerSecond = try number(0.001...10_000) * 1e6
            default: throw Mistake(text: "There is no option \(option).")
            }
        }
    }
}
