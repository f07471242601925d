import Dipper
import Foundation

/// Pictures of the size that cameras make, derived from a photograph of the sample. The first run creates them in
/// `.work`.
struct SamplePictures {
    let folder: URL
    /// A JPEG of 4000 × 3000 pixels, quality 85.
    var jpeg: URL { folder.appendingPathComponent("photo.jpg") }
    /// The picture of ``jpeg`` as a progressive JPEG.
    var progressive: URL { folder.appendingPathComponent("progressive.jpg") }
    /// A PNG of 2400 × 1667 pixels, RGB.
    var png: URL { folder.appendingPathComponent("photo.png") }
    /// The picture of ``png`` with alpha, RGBA.
    var pngWithAlpha: URL { folder.appendingPathComponent("alpha.png") }
    /// A WebP of 2400 × 1667 pixels.
    var webp: URL { folder.appendingPathComponent("photo.webp") }
    /// An AVIF of 2400 × 1667 pixels.
    var avif: URL { folder.appendingPathComponent("photo.avif") }

    static let cameraSize = PixelSize(width: 4000, height: 3000)
    static let middleSize = PixelSize(width: 2400, height: 1667)

    init(_ bench: Bench) throws {
        folder = bench.work.appendingPathComponent("pictures", isDirectory: true)
        // This file is created last.
        guard !FileManager.default.fileExists(atPath: pngWithAlpha.path) else { return }
        say("making pictures in .work/pictures")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let photograph = bench.photographs.appendingPathComponent("mountain-trail.jpg")
        try Command.run(bench.python(), [bench.peer("make_pictures.py"), photograph.path, folder.path])
    }
}
