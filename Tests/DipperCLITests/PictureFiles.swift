import Dipper
import Foundation
import TestSupport

enum PictureFiles {
    private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

    /// One of `Tests/DipperTests/Pictures`, such as `gif/keep.gif`.
    static func file(_ name: String) -> URL { tests.appendingPathComponent("DipperTests/Pictures/\(name)") }

    /// A photograph of the sample's: 900 × 600 pixels.
    static let photo = tests.deletingLastPathComponent()
        .appendingPathComponent("Samples/Scrolling/Assets/photos/coffee-cup.jpg")
    static var photoBytes: Data { get throws { try Data(contentsOf: photo) } }

    static func decode(_ file: String) throws -> Image { try decode(URL(fileURLWithPath: file)) }
    static func decode(_ file: URL) throws -> Image { try CodecRegistry.standard.decode(Data(contentsOf: file)) }

    static func durations(_ image: Image) throws -> [Duration] {
        guard let decoder = try image.animation?.makeFrameDecoder() else { return [] }
        var durations: [Duration] = []
        while let frame = try decoder.next() { durations.append(frame.duration) }
        return durations
    }
}
