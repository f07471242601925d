/// The frames of an animated PNG (W3C PNG, third edition, sections 11.3.6 and 13.2), found chunk by chunk. As in
/// browsers, the frames before the first fault count: a chunk out of order, an area outside the picture, a control
/// without pixels or pixels without a control. A file without such a frame is the still picture.
struct PNGAnimation {
    struct Frame {
        let area: PixelRect
        let duration: Duration
        let disposal: AnimationCanvas.Disposal
        /// Whether the frame is drawn over what is there, and not in its place.
        let isOver: Bool
        /// Whether the pixels are those of the still picture, in `IDAT`.
        let isStill: Bool
        /// The chunks of pixels, and what is between them, in bytes of the file.
        fileprivate(set) var chunks = 0..<0
    }

    /// The number of times the animation plays; 0 for endlessly.
    let loopCount: Int
    private let size: PixelSize
    private var chunks = PNGChunks()
    /// The frames that are announced and have not been read.
    private var rest: Int
    private var sequence = 0
    private var control: Frame?

    /// Reads up to the pixels. `nil` for a still picture, and if the bytes end before.
    init?(_ file: ByteReader) {
        guard let width = try? file.u32(at: 16), let height = try? file.u32(at: 20) else { return nil }
        size = PixelSize(width: width, height: height)
        var announced: (frames: Int, loops: Int)?
        var first: ByteReader?
        var ahead = chunks
        while true {
            guard let (type, content) = try? ahead.next(in: file), !["fdAT", "IEND"].contains(type) else { return nil }
            if type == "IDAT" { break }
            chunks = ahead
            // The first announcement that can be true counts.
            if type == "acTL", announced == nil, content.count == 8, ahead.isSound(in: file),
                let frames = try? content.i32(at: 0), frames > 0, let loops = try? content.i32(at: 4), loops >= 0
            {
                announced = (frames, loops)
            }
            if type == "fcTL" {
                guard first == nil, ahead.isSound(in: file) else { return nil }
                first = content
            }
        }
        guard let announced else { return nil }
        (rest, loopCount) = announced
        guard let first else { return }
        control = readControl(first, isStill: true)
        guard control?.area.size == size else { return nil }
    }

    /// Returns the next frame, with its chunks up to a fault or the end of the bytes; `nil` if there is none. The last
    /// frame of a file on its way may lack pixels.
    mutating func next(in file: ByteReader) -> Frame? {
        guard rest > 0, var frame = control ?? nextControl(in: file) else { return nil }
        (rest, control) = (rest - 1, nil)
        let kind = frame.isStill ? "IDAT" : "fdAT"
        while true {
            let start = chunks.offset
            guard let (type, content) = try? chunks.next(in: file), chunks.offset <= file.available else { break }
            if type == kind, frame.isStill || isNext(content) {
                frame.chunks = (frame.chunks.isEmpty ? start : frame.chunks.lowerBound)..<chunks.offset
            } else if type == "fcTL" {
                control = chunks.isSound(in: file) ? readControl(content, isStill: false) : nil
                break
            } else if ["IEND", "fdAT"].contains(type) {
                break
            }
        }
        if control == nil || frame.chunks.isEmpty { rest = 0 }
        return frame.chunks.isEmpty ? nil : frame
    }

    /// Passes over a still picture that is no frame.
    private mutating func nextControl(in file: ByteReader) -> Frame? {
        while let (type, content) = try? chunks.next(in: file), !["fdAT", "IEND"].contains(type) {
            guard type == "fcTL" else { continue }
            guard chunks.isSound(in: file) else { return nil }
            return readControl(content, isStill: false)
        }
        return nil
    }

    /// Whether a chunk has the next number of the sequence.
    private mutating func isNext(_ content: ByteReader) -> Bool {
        defer { sequence += 1 }
        return (try? content.u32(at: 0)) == sequence
    }

    private mutating func readControl(_ content: ByteReader, isStill: Bool) -> Frame? {
        guard content.count == 26, isNext(content) else { return nil }
        do throws(DipperError) {
            let area = PixelRect(
                x: try content.u32(at: 12), y: try content.u32(at: 16), width: try content.u32(at: 4),
                height: try content.u32(at: 8))
            let bounds = PixelRect(x: 0, y: 0, width: size.width, height: size.height)
            let disposals: [AnimationCanvas.Disposal] = [.keep, .clear, .restore]
            let (disposal, blend) = (try content.u8(at: 24), try content.u8(at: 25))
            guard area.overlap(bounds) == area, disposal < disposals.count, blend < 2 else { return nil }
            let (numerator, denominator) = (try content.u16(at: 20), try content.u16(at: 22))
            return Frame(
                area: area, duration: .seconds(numerator) / (denominator == 0 ? 100 : denominator),
                disposal: disposals[disposal], isOver: blend == 1, isStill: isStill)
        } catch {
            return nil
        }
    }
}
