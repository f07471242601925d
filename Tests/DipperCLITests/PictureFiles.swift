import Dipper
import FaultServer
import Foundation
import TestSupport

/// Pictures that tests read, and how they are served.
enum PictureFiles {
    private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

    /// One of `Tests/DipperTests/Pictures`, such as `gif/keep.gif`.
    static func file(_ name: String) -> URL { tests.appendingPathComponent("DipperTests/Pictures/\(name)") }

    /// A photograph of the sample's: 900 × 600 pixels.
    static let photo = tests.deletingLastPathComponent()
        .appendingPathComponent("Samples/Scrolling/Assets/photos/coffee-cup.jpg")

    static func decode(_ file: String) throws -> Image { try decode(URL(fileURLWithPath: file)) }
    static func decode(_ file: URL) throws -> Image { try CodecRegistry.standard.decode(Data(contentsOf: file)) }

    static func frames(_ image: Image) throws -> [AnimationFrame] {
        guard let decoder = try image.animation?.makeFrameDecoder() else { return [] }
        var frames: [AnimationFrame] = []
        while let frame = try decoder.next() { frames.append(frame) }
        return frames
    }

    /// Serves these bodies by path.
    static func serve(_ bodies: [String: Data]) async throws -> FaultServer {
        try await FaultServer.start(files: bodies)
    }
}

extension FaultServer {
    /// The text of the URL of a path.
    func address(_ path: String) -> String { url(path).absoluteString }
}
