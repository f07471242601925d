import TestSupport
import Testing

@Suite("Damaged animations of PNG are played as browsers do, and within the limits", .timeLimit(.minutes(2)))
struct AnimatedPNGTests {
    private let decoder = PNGDecoder()

    /// The frames of a file that plays; one frame without duration for a still picture.
    private func frames(_ file: PNGFile) throws -> [AnimationFrame] { try decoder.allFrames(of: file.data) }

    private func file(_ name: String = "apng/keep-over.png") throws -> PNGFile { PNGFile(try Pictures.data(name)) }

    /// The places of chunks of a kind.
    private func places(_ kind: String, in file: PNGFile) -> [Int] {
        file.chunks.indices.filter { file.chunks[$0].kind == kind }
    }

    struct Damage: CustomTestStringConvertible {
        let testDescription: String
        /// The number of frames that are left.
        let left: Int
        let make: @Sendable (inout PNGFile) -> Void

        init(_ name: String, leaves left: Int, _ make: @escaping @Sendable (inout PNGFile) -> Void) {
            (testDescription, self.left, self.make) = (name, left, make)
        }
    }

    /// The damages to a file of four frames: IHDR, acTL, fcTL, IDAT, fcTL, fdAT, fcTL, three fdAT, fcTL, fdAT, IEND. A
    /// control has the number, width, height, x, y, two numbers of the delay, the disposal and the blending.
    static let damages: [Damage] = [
        Damage("nothing", leaves: 4) { _ in },
        Damage("without the announcement", leaves: 1) { $0.chunks.remove(at: 1) },
        Damage("announced behind the pixels", leaves: 1) { $0.chunks.insert($0.chunks.remove(at: 1), at: 3) },
        Damage("announced behind the first control", leaves: 4) { $0.chunks.swapAt(1, 2) },
        Damage("announced twice", leaves: 4) { $0.chunks.insert(("acTL", [0, 0, 0, 1, 0, 0, 0, 9]), at: 2) },
        Damage("announced as of no frames", leaves: 1) { $0.chunks[1].body[3] = 0 },
        Damage("announced as of too many frames", leaves: 1) { $0.chunks[1].body[0] = 0x80 },
        Damage("announced too short", leaves: 1) { $0.chunks[1].body.removeLast() },
        Damage("more frames announced than there are", leaves: 4) { $0.chunks[1].body[3] = 9 },
        Damage("fewer frames announced than there are", leaves: 3) { $0.chunks[1].body[3] = 3 },
        Damage("two controls before the pixels", leaves: 1) { $0.chunks.insert($0.chunks[2], at: 2) },
        Damage("numbers that begin with one", leaves: 1) { $0.chunks[2].body[3] = 1 },
        Damage("a first frame smaller than the picture", leaves: 1) { $0.chunks[2].body[7] -= 1 },
        Damage("a gap in the numbers of controls", leaves: 1) { $0.chunks[4].body[3] += 1 },
        Damage("a gap in the numbers of pixels", leaves: 2) { $0.chunks[8].body[3] += 1 },
        Damage("pixels in another order", leaves: 2) { $0.chunks.swapAt(7, 8) },
        Damage("pixels that are missing", leaves: 2) { $0.chunks.removeSubrange(7...9) },
        Damage("a part of the pixels that is missing", leaves: 2) { $0.chunks.remove(at: 8) },
        Damage("a last part of the pixels that is missing", leaves: 2) { $0.chunks.remove(at: 9) },
        Damage("a control that is missing", leaves: 2) { $0.chunks.remove(at: 6) },
        Damage("a control that is too short", leaves: 2) { $0.chunks[6].body.removeLast() },
        Damage("an area beside the picture", leaves: 2) { $0.chunks[6].body[15] = 35 },
        Damage("an area far beside the picture", leaves: 2) { $0.chunks[6].body[16] = 0xFF },
        Damage("an area without pixels", leaves: 2) { $0.chunks[6].body[11] = 0 },
        Damage("an unknown disposal", leaves: 2) { $0.chunks[6].body[24] = 3 },
        Damage("an unknown blending", leaves: 2) { $0.chunks[6].body[25] = 2 },
        Damage("pixels of another size", leaves: 2) { $0.chunks[6].body[11] += 1 },
        Damage("pixels that are no stream", leaves: 2) { $0.chunks[7].body[4] ^= 0xFF },
        Damage("pixels too short for a number", leaves: 3) {
            $0.chunks[11].body.removeLast($0.chunks[11].body.count - 3)
        },
        Damage("other chunks between", leaves: 4) {
            for place in [12, 11, 9, 8, 6, 5, 3, 2] { $0.chunks.insert(("teSt", [1, 2, 3]), at: place) }
        },
        Damage("without an end", leaves: 4) { $0.chunks.removeLast() },
        Damage("pixels behind the end", leaves: 3) { $0.chunks.insert($0.chunks.remove(at: 12), at: 10) },
    ]

    @Test("The frames before the first fault are played; without two of them the picture is still", arguments: damages)
    func damaged(_ damage: Damage) throws {
        let whole = try frames(file())
        try #require(whole.count == 4)
        var file = try file()
        damage.make(&file)
        let left = try frames(file)
        #expect(left.map(\.image.pixels) == whole.prefix(damage.left).map(\.image.pixels))
        let image = try decoder.decode(file.data, .init())
        #expect(image.pixels == whole[0].image.pixels && (image.animation != nil) == (damage.left > 1))
    }

    @Test("A wrong checksum ends the animation, or makes it still", arguments: ["acTL", "fcTL", "fdAT"])
    func checksums(_ kind: String) throws {
        let (file, whole) = (try file(), try frames(file()))
        for (index, place) in places(kind, in: file).enumerated() {
            var data = file.data
            let start = 8 + file.chunks[..<place].reduce(0) { $0 + 12 + $1.body.count }
            data[start + 8 + file.chunks[place].body.count] ^= 1
            // Three of the chunks of pixels are those of the third frame.
            let left = kind == "acTL" ? 1 : kind == "fcTL" ? max(1, index) : [1, 2, 2, 2, 3][index]
            #expect(try decoder.allFrames(of: data).map(\.image.pixels) == whole.prefix(left).map(\.image.pixels))
        }
    }

    @Test("The transparency of a palette counts only with a right checksum, and colours must have one")
    func palette() throws {
        let colors = Array([[9, 8, 7], [200, 100, 50]].joined()) as [UInt8]
        var file = try small(2, 1, frames: 2)
        // A stored block of zlib (RFC 1950, RFC 1951): no filter, and the two entries.
        let pixels: [UInt8] = [0x78, 1, 1, 3, 0, 0xFC, 0xFF, 0, 0, 1, 0, 4, 0, 2]
        file.chunks[0].body.replaceSubrange(8..<10, with: [8, 3])
        file.chunks.insert(contentsOf: [("PLTE", colors), ("tRNS", [0])], at: 2)
        for place in file.chunks.indices {
            if file.chunks[place].kind == "IDAT" { file.chunks[place].body = pixels }
            if file.chunks[place].kind == "fdAT" { file.chunks[place].body.replaceSubrange(4..., with: pixels) }
            if file.chunks[place].kind == "fcTL" { file.chunks[place].body[7] = 2 }
        }
        func alpha(_ frames: [AnimationFrame]) -> [[UInt8]] {
            frames.map { frame in [3, 7].map { frame.image.pixels[$0] } }
        }
        #expect(try alpha(frames(file)) == [[0, 255], [0, 255]])
        func damaged(_ kind: String) throws -> Data {
            var data = file.data
            let place = try #require(places(kind, in: file).first)
            let start = 8 + file.chunks[..<place].reduce(0) { $0 + 12 + $1.body.count }
            data[start + 8 + file.chunks[place].body.count] ^= 1
            return data
        }
        #expect(try alpha(decoder.allFrames(of: damaged("tRNS"))) == [[255, 255], [255, 255]])
        #expect(CodecRegistry.standard.failure(try damaged("PLTE")) == .undecodable)
    }

    @Test("A file whose only frame is the still picture needs no more memory than that picture")
    func oneFrame() throws {
        var still = try PNGFile(PixelSize(width: 2, height: 1), straight: [9, 8, 7, 255, 1, 2, 3, 255])
        let memory = try decoder.memory(of: still.data, .init())
        let control: [UInt8] = [0, 2, 1, 0, 0].flatMap { HeaderBytes.big32($0) } + [0, 1, 0, 10, 0, 0]
        still.chunks.insert(("acTL", HeaderBytes.big32(1) + HeaderBytes.big32(0)), at: 1)
        still.chunks.insert(("fcTL", control), at: 2)
        #expect(try decoder.memory(of: still.data, .init()) == memory)
        #expect(try frames(still).map(\.image.pixels) == [[9, 8, 7, 255, 1, 2, 3, 255]])
    }

    @Test("A still picture that is no frame is shown only if no frame is sound")
    func apart() throws {
        let whole = try file("apng/apart.png")
        let still = Array(repeatElement([23, 23, 23, 77] as [UInt8], count: 40 * 30).joined())
        #expect(try frames(whole).count == 2)
        let pixels = try #require(places("fdAT", in: whole).first)
        let changes: [(inout PNGFile) -> Void] = [
            { $0.chunks.remove(at: pixels) }, { $0.chunks[pixels].body[4] ^= 0xFF }, { $0.chunks[pixels].body[3] = 7 },
            { $0.chunks.removeSubrange(pixels...) },
        ]
        for change in changes {
            var file = whole
            change(&file)
            let image = try decoder.decode(file.data, .init())
            #expect(image.pixels == still && image.animation == nil)
        }
        // Of a file on its way.
        let data = whole.data
        let second = try #require(data.range(of: Data("fdAT".utf8)))
        #expect(try decoder.decode(data.prefix(second.upperBound + 20), .partial).pixels == still)
        #expect(try decoder.decode(data, .with { $0.firstFrameOnly = true }).pixels != still)
    }

    @Test(
        "However many bytes there are, the frames are the first ones of the whole",
        arguments: ["keep-over", "apart", "tiny"])
    func pieces(_ name: String) throws {
        let data = try Pictures.data("apng/\(name).png")
        let whole = try decoder.allFrames(of: data).map(\.image.pixels)
        var (count, counted) = (0, 1)
        for length in 57...data.count {
            let start = data.prefix(length)
            guard let info = try? ImageInfo(start) else { continue }
            #expect(info.frameCount >= counted && info.frameCount <= whole.count)
            counted = info.frameCount
            guard let image = try? decoder.decode(start, .init()) else { continue }
            // Before its first frame has come, the still picture may be another one.
            guard info.frameCount > 1 || image.pixels == whole[0] else { continue }
            let found = try decoder.allFrames(of: start).map(\.image.pixels)
            #expect(found.count >= count && found == Array(whole.prefix(found.count)), "\(length) bytes")
            count = found.count
        }
        #expect(count == whole.count)
    }

    @Test("Chunks removed, doubled, exchanged, cut off or with other bytes give frames or an error of ours")
    func hostile() throws {
        let whole = try file("apng/tiny.png")
        var files: [PNGFile] = []
        for place in whole.chunks.indices.dropFirst() {
            for other in whole.chunks.indices.dropFirst() where other > place {
                var file = whole
                file.chunks.swapAt(place, other)
                files.append(file)
            }
            var file = whole
            file.chunks.remove(at: place)
            files.append(file)
            file = whole
            file.chunks.insert(whole.chunks[place], at: place)
            files.append(file)
            for index in whole.chunks[place].body.indices {
                for mask: UInt8 in [0x01, 0x80, 0xFF] {
                    file = whole
                    file.chunks[place].body[index] ^= mask
                    files.append(file)
                }
                file = whole
                file.chunks[place].body.removeSubrange(index...)
                files.append(file)
            }
        }
        for file in files { decoder.survives(file.data) }
        #expect(files.count > 500)
    }

    // MARK: Limits

    /// A picture of a size with frames of one pixel.
    private func small(_ width: Int, _ height: Int, frames: Int) throws -> PNGFile {
        var file = try PNGFile(PixelSize(width: 1, height: 1), straight: [9, 8, 7, 255])
        let pixel = file.chunks[1].body
        file.chunks[0].body.replaceSubrange(0..<8, with: HeaderBytes.big32(width) + HeaderBytes.big32(height))
        file.chunks.removeLast()
        file.chunks.insert(("acTL", HeaderBytes.big32(frames) + HeaderBytes.big32(0)), at: 1)
        for index in 0..<frames {
            let numbers = [2 * index, 1, 1, 0, 0].flatMap { HeaderBytes.big32($0) }
            file.chunks.append(("fcTL", numbers + [0, 1, 0, 10, 0, 0]))
            file.chunks.append(("fdAT", HeaderBytes.big32(2 * index + 1) + pixel))
        }
        file.chunks.append(("IEND", []))
        return file
    }

    @Test("The canvas and all that a frame takes count against the limits before they are allocated")
    func canvas() throws {
        let data = try small(3000, 2000, frames: 3).data
        let pixels = 3000 * 2000
        let memory = try decoder.memory(of: data, .init())
        // The canvas, what was there before, a frame, and the result.
        #expect((pixels * 16...pixels * 16 + data.count).contains(memory))
        let limited = DecodeOptions.with { $0.limits.bytes = memory - 1 }
        #expect(CodecRegistry.standard.failure(data, limited) == .imageTooLarge)
        for (width, height) in [(60_000, 60_000), (Int(Int32.max), 9)] {
            let huge = try small(width, height, frames: 2).data
            #expect(CodecRegistry.standard.failure(huge) == .imageTooLarge)
        }
        let many = try small(4, 3, frames: 10_001).data
        #expect(CodecRegistry.standard.failure(many) == .imageTooLarge)
        #expect(try decoder.decode(many, .with { $0.firstFrameOnly = true }).animation == nil)
    }

    @Test("An animation of many frames is decoded and written one frame after the other")
    func oneByOne() throws {
        let animation = try #require(try decoder.decode(small(40, 30, frames: 500).data, .init()).animation)
        let frames = WatchedFrames(try animation.makeFrameDecoder())
        let file = try PNGEncoder().encode(frames, loopCount: 0, .init())
        #expect(try ImageInfo(file).frameCount == 500)
        // The frame before is kept to see what changes.
        #expect(frames.mostHeld <= 3)
    }

    @Test("All frames together have no more stored pixels than the limit, however small they are written")
    func storedPixels() throws {
        let data = try small(400, 300, frames: 50).data
        for (frames, error) in [(50, nil), (49, DipperError.imageTooLarge)] {
            let options = DecodeOptions.with {
                $0.target = TargetSize(width: 4, height: 3)
                $0.limits.pixels = 400 * 300 * frames
            }
            let image = try decoder.decode(data, options)
            #expect((Result { () throws(DipperError) in try image.encoded(as: .png) }).error == error)
        }
    }

    // MARK: Writing

    @Test("A frame is written as the part that changes, and an animation as opaque if all of it is")
    func parts() throws {
        let (red, green) = (
            Image.filled(with: Color(hex: 0xFF0000), 40, 30), Image.filled(with: Color(hex: 0x00FF00), 6, 4)
        )
        let changed = try red.processed(by: .blend(green, .over, anchor: .bottomRight))
        let clear = Image.filled(with: .clear, 40, 30)
        func written(_ images: [Image]) throws -> PNGFile {
            let frames = images.map { AnimationFrame(image: $0, duration: .milliseconds(20)) }
            let data = try PNGEncoder().encode(frames, loopCount: 7, .init())
            let again = try decoder.allFrames(of: data)
            #expect(again.map(\.image.pixels) == images.map(\.pixels))
            #expect(again.map(\.duration) == frames.map(\.duration))
            return PNGFile(data)
        }
        let opaque = try written([red, changed, changed, red])
        #expect(opaque.chunks[0].body[9] == 2)
        let areas = places("fcTL", in: opaque).map { place -> [UInt8] in
            // The last bytes of width, height, x and y.
            let control = opaque.chunks[place].body
            return [control[7], control[11], control[15], control[19]]
        }
        #expect(areas == [[40, 30, 0, 0], [6, 4, 34, 26], [1, 1, 0, 0], [6, 4, 34, 26]])
        // Alpha is found when the first frames have been written.
        #expect(try written([red, changed, clear, red]).chunks[0].body[9] == 6)
    }

    @Test("The sum of durations is right, and a frame may be shown for hours")
    func durations() throws {
        func again(_ durations: [Duration]) throws -> [Duration] {
            let frames = durations.map {
                AnimationFrame(image: .filled(with: Color(hex: 0xFF0000), 2, 2), duration: $0)
            }
            return try decoder.allFrames(of: PNGEncoder().encode(frames, loopCount: 1, .init())).map(\.duration)
        }
        let third = Duration.seconds(1) / 3
        #expect(try again([third, third, third]).reduce(.zero, +) == .seconds(1))
        let long: [Duration] = [.milliseconds(65_535), .milliseconds(655_340), .seconds(6000), .seconds(65_000)]
        #expect(try again(long) == long)
    }
}

/// Counts the frames that are in memory at once.
private final class WatchedFrames: FrameDecoder {
    private struct WeakStorage {
        weak var storage: PixelStorage?
    }

    private let frames: any FrameDecoder
    private var given: [WeakStorage] = []
    private(set) var mostHeld = 0

    init(_ frames: any FrameDecoder) {
        self.frames = frames
    }

    func next() throws(DipperError) -> AnimationFrame? {
        given.removeAll { $0.storage == nil }
        mostHeld = max(mostHeld, given.count)
        let frame = try frames.next()
        if let frame { given.append(WeakStorage(storage: frame.image.storage)) }
        return frame
    }

    func rewind() throws(DipperError) { try frames.rewind() }
}
