import CFastPNG
import Foundation

/// Decodes each frame of an animated PNG as a picture of its own, and draws it on the canvas.
final class PNGFrames: FrameReader {
    private typealias Chunk = (type: String, content: [UInt8])
    let frameCount: Int
    let loopCount: Int
    let held: Int
    private let data: Data
    private let info: ImageInfo
    private let options: DecodeOptions
    /// The palette and the transparency of all frames.
    private let palette: [Chunk]
    private let color: ColorTransform?
    private let canvas: AnimationCanvas
    private let start: PNGAnimation
    private var animation: PNGAnimation

    static func memory(
        of info: ImageInfo, fileSize: Int, _ options: DecodeOptions
    ) throws(DipperError) -> (held: Int, all: Int) {
        let size = info.orientation.applied(to: info.size ?? PixelSize(width: 0, height: 0))
        // Beside the canvas there is a frame's file and its picture, which as that of all passes is there twice.
        let held = try size.byteCount(AnimationCanvas.bytesPerPixel + (info.isProgressive ? 8 : 4)) + fileSize
        let target = try options.storedTarget(for: size, info.orientation)
        let frame = try RowWriter.byteCount(from: size, to: target, info.orientation)
        return (held, held + options.resultBytes(frame, frames: info.frameCount, beside: held))
    }

    init(_ data: Data, _ info: ImageInfo, _ options: DecodeOptions) throws(DipperError) {
        let size = info.orientation.applied(to: info.size ?? PixelSize(width: 0, height: 0))
        try options.check(size, frames: info.frameCount)
        let memory = try Self.memory(of: info, fileSize: data.count, options)
        try options.limits.check(bytes: memory.all)
        held = memory.held
        let (animation, palette, color) = try data.withBytes {
            bytes throws(DipperError) -> (PNGAnimation?, [Chunk], ColorTransform?) in
            let reader = try PNGReader(bytes, mayEndEarly: false)
            let file = ByteReader(bytes)
            return (PNGAnimation(file), try Self.palette(in: file), PNGColors.transform(for: reader.header, info))
        }
        guard let animation else { throw .undecodable.with(detail: "there are no frames") }
        (frameCount, loopCount) = (info.frameCount, animation.loopCount)
        (start, self.animation, self.palette, self.color) = (animation, animation, palette, color)
        (self.data, self.info, self.options) = (data, info, options)
        canvas = try AnimationCanvas(size)
    }

    func restart() {
        animation = start
        canvas.restart()
    }

    func read() throws(DipperError) -> AnimationFrame? {
        let next = try data.withBytes { bytes throws(DipperError) -> (PNGAnimation.Frame, Image)? in
            let file = ByteReader(bytes)
            guard let frame = animation.next(in: file) else { return nil }
            return (frame, try picture(of: frame, in: file))
        }
        guard let (frame, picture) = next else { return nil }
        try canvas.begin(frame.area, frame.disposal)
        try canvas.draw(picture, in: frame.area, isOver: frame.isOver, options)
        return AnimationFrame(image: try canvas.image(orientation: info.orientation, options), duration: frame.duration)
    }

    private func picture(of frame: PNGAnimation.Frame, in file: ByteReader) throws(DipperError) -> Image {
        var frameInfo = ImageInfo(format: .png, size: frame.area.size)
        frameInfo.isProgressive = info.isProgressive
        var options = DecodeOptions()
        (options.limits, options.isCancelled) = (self.options.limits, self.options.isCancelled)
        let picture = try still(of: frame, in: file)
        return try picture.withBytes { bytes throws(DipperError) in
            let reader = try PNGReader(bytes, mayEndEarly: false)
            return try PNGDecoder.decode(reader, frameInfo, fileSize: bytes.count, color, options)
        }
    }

    /// The first sound one of each kind, as in libpng.
    private static func palette(in file: ByteReader) throws(DipperError) -> [Chunk] {
        var found: [Chunk] = []
        var chunks = PNGChunks()
        while true {
            let (type, content) = try chunks.next(in: file)
            if type == "IDAT" { return found }
            guard ["PLTE", "tRNS"].contains(type), content.count <= 768, !found.contains(where: { $0.type == type })
            else { continue }
            if chunks.isSound(in: file) {
                found.append((type, Array(content.bytes)))
            } else if type == "PLTE" {
                throw .undecodable.with(detail: "a wrong checksum")
            }
        }
    }

    /// The file of a frame's pixels as a still picture. Chunks with a wrong checksum throw `DipperError.undecodable`.
    private func still(of frame: PNGAnimation.Frame, in file: ByteReader) throws(DipperError) -> Data {
        var writer = PNGChunkWriter(capacity: frame.chunks.count + 2048)
        let (size, form) = (frame.area.size, try file.part(at: 24, count: 5))
        writer.add(
            "IHDR", [size.width, size.height].flatMap { PNGChunkWriter.big(UInt32($0)) } + Array(form.bytes))
        for chunk in palette { writer.add(chunk.type, chunk.content) }
        var chunks = PNGChunks(at: frame.chunks.lowerBound)
        while chunks.offset < frame.chunks.upperBound {
            let (type, content) = try chunks.next(in: file)
            guard type == (frame.isStill ? "IDAT" : "fdAT") else { continue }
            guard chunks.isSound(in: file) else { throw .undecodable.with(detail: "a wrong checksum") }
            writer.add("IDAT", [], try content.part(from: frame.isStill ? 0 : 4).bytes)
        }
        writer.add("IEND")
        return writer.file
    }
}

/// Puts a PNG file together, chunk by chunk.
struct PNGChunkWriter {
    var file: Data

    init(capacity: Int = 0) {
        file = Data(capacity: capacity)
        file += [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
    }

    static func big<Number: FixedWidthInteger>(_ number: Number) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    mutating func add(_ type: String, _ head: [UInt8] = [], _ body: UnsafeRawBufferPointer? = nil) {
        file += Self.big(UInt32(head.count + (body?.count ?? 0)))
        let start = Array(type.utf8) + head
        file += start
        var sum = fastpng_crc(0, start, start.count)
        if let bytes = body?.baseAddress?.assumingMemoryBound(to: UInt8.self), let count = body?.count {
            file.append(bytes, count: count)
            sum = fastpng_crc(sum, bytes, count)
        }
        file += Self.big(sum)
    }
}
