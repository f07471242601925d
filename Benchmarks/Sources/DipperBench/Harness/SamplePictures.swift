import Dipper
import Foundation

/// Pictures of the size that cameras make, from a photograph of the sample; made at first use and kept in `.work`.
struct SamplePictures {
    let folder: URL
    /// 4000 × 3000, quality 85.
    var jpeg: URL { folder.appendingPathComponent("photo.jpg") }
    /// The same picture.
    var progressive: URL { folder.appendingPathComponent("progressive.jpg") }
    /// 2400 × 1667, RGB.
    var png: URL { folder.appendingPathComponent("photo.png") }
    /// 2400 × 1667.
    var webp: URL { folder.appendingPathComponent("photo.webp") }
    /// 2400 × 1667.
    var avif: URL { folder.appendingPathComponent("photo.avif") }

    static let cameraSize = PixelSize(width: 4000, height: 3000)
    static let middleSize = PixelSize(width: 2400, height: 1667)

    init(_ bench: Bench) throws {
        folder = bench.work.appendingPathComponent("pictures", isDirectory: true)
        // Made last.
        guard !FileManager.default.fileExists(atPath: avif.path) else { return }
        say("making pictures in .work/pictures")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let photograph = bench.package.deletingLastPathComponent()
            .appendingPathComponent("Samples/Scrolling/Assets/photos/mountain-trail.jpg")
        try Command.run(bench.python(), [bench.peer("make_pictures.py"), photograph.path, folder.path])
    }
}
