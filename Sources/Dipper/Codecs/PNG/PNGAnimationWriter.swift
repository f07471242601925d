import Foundation

/// Writes an animated PNG. The first frame is the still picture. Each further one has the part that differs from the
/// frame before, and takes the place of what was there.
struct PNGAnimationWriter {
    private var writer = PNGChunkWriter()
    private let loopCount: Int
    private let withoutAlpha: Bool
    /// Where the file announces the animation, in bytes.
    private var announcement = 0
    private var before: Image?
    private var count = 0
    private var sequence: UInt32 = 0
    private var time = Duration.zero

    /// Returns `nil` if a frame has alpha that must not be left out.
    static func file(
        of frames: any FrameDecoder, loopCount: Int, withoutAlpha: Bool
    ) throws(DipperError) -> Data? {
        guard (0...Int(Int32.max)).contains(loopCount) else {
            throw .unencodable.with(detail: "PNG: shown \(loopCount) times")
        }
        var frames = try FrameRun(frames)
        var file = PNGAnimationWriter(loopCount: loopCount, withoutAlpha: withoutAlpha)
        while let frame = try frames.next() {
            if withoutAlpha, !frame.image.isOpaque { return nil }
            try file.add(frame)
        }
        return file.finish()
    }

    private init(loopCount: Int, withoutAlpha: Bool) {
        (self.loopCount, self.withoutAlpha) = (loopCount, withoutAlpha)
    }

    private mutating func add(_ frame: AnimationFrame) throws(DipperError) {
        let area = before.map { frame.image.change(from: $0) } ?? frame.image.bounds
        let still = try PNGEncoder.file(of: frame.image, in: area, withoutAlpha: withoutAlpha)
        let delay = try delay(until: time + max(.zero, frame.duration))
        try still.withBytes { bytes throws(DipperError) in
            let file = ByteReader(bytes)
            if count == 0 { try addHeader(of: file) }
            let numbers = [area.size.width, area.size.height, area.x, area.y]
            // Without disposal; drawn in the place of what is there.
            writer.add("fcTL", next() + numbers.flatMap { PNGChunkWriter.big(UInt32($0)) } + delay + [0, 0])
            var chunks = PNGChunks()
            while chunks.offset < bytes.count {
                let (type, content) = try chunks.next(in: file)
                guard type == "IDAT" else { continue }
                if count == 0 {
                    writer.add("IDAT", [], content.bytes)
                } else {
                    writer.add("fdAT", next(), content.bytes)
                }
            }
        }
        (before, count) = (frame.image, count + 1)
    }

    /// Adds the chunks before the pixels, and the announcement, of which ``finish()`` states the number of frames.
    private mutating func addHeader(of file: ByteReader) throws(DipperError) {
        writer.add("IHDR", Array(try file.part(at: 16, count: 13).bytes))
        announcement = writer.file.count
        writer.add("acTL", [UInt8](repeating: 0, count: 8))
        var chunks = PNGChunks()
        while true {
            let (type, content) = try chunks.next(in: file)
            if type == "IDAT" { return }
            writer.add(type, [], content.bytes)
        }
    }

    private mutating func finish() -> Data {
        writer.add("IEND")
        var announced = PNGChunkWriter()
        announced.add("acTL", [count, loopCount].flatMap { PNGChunkWriter.big(UInt32($0)) })
        writer.file.replaceSubrange(announcement..<announcement + 20, with: announced.file.dropFirst(8))
        return writer.file
    }

    /// The next number of the sequence.
    private mutating func next() -> [UInt8] {
        defer { sequence += 1 }
        return PNGChunkWriter.big(sequence)
    }

    /// The two numbers of a delay. Only the sum of the durations is rounded, so that errors do not add up.
    private mutating func delay(until end: Duration) throws(DipperError) -> [UInt8] {
        func milliseconds(_ time: Duration) -> Double { (time / .milliseconds(1)).rounded() }
        defer { time = end }
        let delay = milliseconds(end) - milliseconds(time)
        for unit in [1, 10, 100, 1000] {
            guard let number = UInt16(exactly: (delay / Double(unit)).rounded()) else { continue }
            return PNGChunkWriter.big(number) + PNGChunkWriter.big(UInt16(1000 / unit))
        }
        throw .unencodable.with(detail: "PNG: a frame of \(delay / 1000) seconds")
    }
}

extension Image {
    /// The smallest area in which a picture of the same size differs; a pixel if nothing does.
    func change(from other: Image) -> PixelRect {
        func pixels(_ image: Image, _ y: Int) -> UnsafePointer<UInt32> {
            UnsafeRawPointer(image.row(y)).assumingMemoryBound(to: UInt32.self)
        }
        func differs(_ y: Int) -> Bool { memcmp(row(y), other.row(y), width * 4) != 0 }
        guard let top = (0..<height).first(where: differs), let bottom = (0..<height).last(where: differs) else {
            return PixelRect(x: 0, y: 0, width: 1, height: 1)
        }
        var (left, right) = (width, 0)
        for y in top...bottom {
            let (new, old) = (pixels(self, y), pixels(other, y))
            if let first = (0..<left).first(where: { new[$0] != old[$0] }) { left = first }
            if let last = (right..<width).last(where: { new[$0] != old[$0] }) { right = last + 1 }
        }
        return PixelRect(x: left, y: top, width: right - left, height: bottom - top + 1)
    }
}
