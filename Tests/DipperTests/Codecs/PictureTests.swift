import TestSupport
import Testing

/// A test picture, and how far its pixels may be from the expected ones, in steps of 1/255.
struct PictureCase: CustomTestStringConvertible {
    let path: String
    let tolerance: Int
    /// The duration of each frame in milliseconds.
    var durations: [Int] = [0]
    var loopCount: Int?

    var testDescription: String { path }

    init(_ path: String, within tolerance: Int = 0, durations: [Int] = [0], loopCount: Int? = nil) {
        (self.path, self.tolerance, self.durations, self.loopCount) = (path, tolerance, durations, loopCount)
    }

    static func all(_ folder: String, _ ending: String, within tolerance: Int, _ names: [String]) -> [PictureCase] {
        names.map { PictureCase("\(folder)/\($0).\(ending)", within: tolerance) }
            .filter { Pictures.isReadable($0.path) }
    }

    func golden(_ frame: Int? = nil) throws -> Golden {
        try Golden(path.prefix { $0 != "." } + (frame.map { ".\($0)" } ?? "") + ".rgba")
    }
}

@Suite("Pictures of every format", .timeLimit(.minutes(2))) struct PictureTests {
    private func decode(_ path: String, _ options: DecodeOptions = .init()) throws -> Image {
        try CodecRegistry.standard.decode(Pictures.data(path), options)
    }

    /// All that are in sRGB. Premultiplying is rounded in one place only: not even one step is allowed.
    static let png = PictureCase.all(
        "png", "png", within: 0,
        [1, 2, 4, 8].flatMap { ["grey\($0)", "grey\($0)-trns", "palette\($0)", "palette\($0)-trns"] } + [
            "rgb8", "rgb8-trns", "rgba8", "rgba8-opaque", "greyalpha8", "rgb16", "rgba16", "grey16", "greyalpha16",
            "rgb16-trns", "rgb8-interlaced", "rgba8-interlaced", "grey1-interlaced", "palette4-interlaced",
            "tiny-interlaced", "exif6", "gamma-srgb", "srgb",
        ])

    // Both are libjpeg-turbo, whose transforms and upsampling are exact on all machines.
    private static let jpeg = PictureCase.all(
        "jpeg", "jpg", within: 0,
        [
            "grey", "444", "422", "420", "440", "411", "rgb", "progressive", "progressive-grey", "restart",
            "restart-blocks", "scans", "arithmetic", "arithmetic-progressive", "pixel", "column", "17x33", "cmyk",
            "cmyk-adobe", "ycck", "profile-srgb",
        ] + (1...8).map { "orientation-\($0)" })

    private static let webP =
        [("lossy", 0), ("lossless", 0), ("turned", 0)]
        + [("alpha-lossy", 1), ("alpha-lossless", 1), ("turned-alpha", 1), ("profile", 3)]
    private static let avif =
        [
            ("half-chroma", 3), ("full-chroma", 2), ("grey", 1), ("alpha", 3), ("multiplied-alpha", 3), ("profile", 5),
            ("tall", 3), ("ten-bits", 2), ("twelve-bits-alpha", 3), ("p3", 4), ("bt2020", 8), ("cropped", 12),
            ("grid", 3),
        ] + (1...8).map { ("orientation-\($0)", 3) }

    // libheif's own program makes what is compared with, and libjxl's and librsvg's theirs.
    private static let heic =
        [
            ("half-chroma", 0), ("full-chroma", 0), ("grey", 0), ("odd", 0), ("lossless", 0), ("alpha", 1), ("grid", 0),
            ("ten-bits", 1), ("twelve-bits", 1), ("profile", 5), ("p3", 4),
        ] + (1...8).map { ("orientation-\($0)", 0) }
    private static let jpegXL =
        [
            ("lossy", 1), ("lossless", 0), ("modular", 1), ("progressive", 1), ("container", 1), ("alpha", 1),
            ("alpha-lossless", 1), ("multiplied-alpha", 3), ("grey", 0), ("grey-lossy", 1), ("profile", 5),
            ("profile-lossy", 8), ("made-of-jpeg", 1),
        ] + (1...8).map { ("orientation-\($0)", 1) }
    // Pillow does not read all of these; the script that makes them says what they show.
    private static let bmp = PictureCase.all(
        "bmp", "bmp", within: 0,
        [1, 2, 4, 8].map { "palette\($0)" } + [1, 4, 8].map { "os2-palette\($0)" } + [
            "few-colors", "gap", "no-start", "no-filling", "outside-palette", "os2-long", "os2-short", "os2-rgb24",
            "rgb16", "masks565", "masks4444", "rgb24", "top-first", "rgb32", "alpha-v3", "alpha-v4", "alpha-zero",
            "masks-ten-bits", "runs4", "runs8", "runs-apart",
        ])
    private static let ico = PictureCase.all(
        "ico", "ico", within: 0, [1, 4, 8, 24, 32].map { "bits\($0)" } + ["mask32", "png"])
    private static let svg = [("shapes", 1), ("filter", 1), ("inside", 1), ("opaque", 0)]

    /// Gamma, primaries and profiles are brought to sRGB by tables of eight bits on both sides, which versions of
    /// Little CMS round differently.
    private static let colors =
        PictureCase.all("png", "png", within: 2, ["gamma-linear", "chrm-p3", "icc-p3"])
        + PictureCase.all("png", "png", within: 3, ["icc-p3-alpha"])
        + PictureCase.all("bmp", "bmp", within: 2, ["profile"])
        + PictureCase.all(
            "jpeg", "jpg", within: 1, ["profile-wide", "profile-adobe", "profile-grey", "cmyk-profile"])

    static let stills =
        png + jpeg + bmp + ico + colors + webP.flatMap { PictureCase.all("webp", "webp", within: $0.1, [$0.0]) }
        + avif.flatMap { PictureCase.all("avif", "avif", within: $0.1, [$0.0]) }
        + heic.flatMap { PictureCase.all("heic", "heic", within: $0.1, [$0.0]) }
        + jpegXL.flatMap { PictureCase.all("jxl", "jxl", within: $0.1, [$0.0]) }
        + svg.flatMap { PictureCase.all("svg", "svg", within: $0.1, [$0.0]) }

    @Test("look as Pillow decodes them, or the programs of the format's own library", arguments: stills)
    func still(_ test: PictureCase) throws {
        let data = try Pictures.data(test.path)
        let decoder = try CodecRegistry.standard.decoder(for: data)
        let image = try decoder.decode(data, .init())
        let golden = try test.golden()
        let difference = try Difference(image, golden)
        #expect(difference.largest <= test.tolerance && difference.mean < 0.5, "\(difference)")
        #expect(image.isOpaque == golden.isOpaque)
        #expect(image.animation == nil)
        #expect(try decoder.frames(of: data, .init()) == nil)
        #expect(try decoder.info(of: data).size == image.size)
    }

    private static let apng: [PictureCase] = {
        func cases(_ names: [String], _ durations: [Int], _ loops: Int, within tolerance: Int = 0) -> [PictureCase] {
            names.map { PictureCase("apng/\($0).png", within: tolerance, durations: durations, loopCount: loops) }
        }
        var all: [PictureCase] = []
        for (loops, disposal) in ["keep", "clear", "restore"].enumerated() {
            let exact = ["\(disposal)-source", "\(disposal)-over", "\(disposal)-source-soft"]
            all += cases(exact, [50, 100, 0, 2500], loops)
            all += cases(["\(disposal)-over-soft"], [50, 100, 0, 2500], loops, within: 2)
        }
        all += cases(["interlaced", "palette"], [100, 100, 100], 0)
        all += cases(["no-alpha", "sixteen-bits"], [100, 100], 0)
        all += cases(["restore-first", "clear-first"], [100, 70], 0)
        all += cases(["apart"], [250, 70], 3)
        all += cases(["linear-turned"], [100, 100, 100], 0, within: 2)
        all.append(PictureCase("apng/apart-once.png"))
        return all
    }()

    private static let moving: [PictureCase] = [
        PictureCase("gif/still.gif"), .init("gif/interlaced.gif"), .init("gif/transparent.gif"),
        .init("gif/keep.gif", durations: [50, 100, 0, 2500], loopCount: 0),
        // Repeated three times, as in browsers.
        .init("gif/clear.gif", durations: [50, 100, 0, 2500], loopCount: 4),
        .init("gif/restore.gif", durations: [50, 100, 0, 2500], loopCount: 1),
        .init("gif/mixed.gif", durations: [100, 70, 80, 90, 110, 120], loopCount: 0),
        .init("gif/restore-first.gif", durations: [100, 70], loopCount: 1),
        .init("gif/small-first.gif", durations: [70, 80], loopCount: 1),
        .init("gif/outside.gif", durations: [100, 100, 100, 100, 100], loopCount: 1),
        .init("gif/no-screen.gif", durations: [100, 100], loopCount: 1),
        .init("webp/moving.webp", durations: [50, 100, 250], loopCount: 3),
        .init("webp/floating.webp", within: 1, durations: [40, 0, 90], loopCount: 0),
        .init("avif/moving.avif", within: 4, durations: [50, 100, 250], loopCount: 0),
        .init("avif/floating.avif", within: 4, durations: [40, 80, 90], loopCount: 0),
        .init("jxl/moving.jxl", within: 1, durations: [50, 100, 250], loopCount: 0),
        .init("jxl/floating.jxl", within: 1, durations: [40, 80, 90], loopCount: 0),
    ]

    @Test(
        "have the frames that Pillow or the format's own library decodes and browsers show, each for its time, as often as the file says",
        arguments: moving.filter { Pictures.isReadable($0.path) } + apng)
    func frames(_ test: PictureCase) throws {
        let data = try Pictures.data(test.path)
        let decoder = try CodecRegistry.standard.decoder(for: data)
        let frames = try decoder.allFrames(of: data)
        #expect(frames.map(\.duration) == test.durations.map { .milliseconds($0) })
        for (index, frame) in frames.enumerated() {
            let difference = try Difference(frame.image, test.golden(index))
            #expect(difference.largest <= test.tolerance, "frame \(index): \(difference)")
        }
        let image = try decoder.decode(data, .init())
        #expect(image.pixels == frames[0].image.pixels)
        #expect(try image.isOpaque == test.golden(0).isOpaque)
        #expect(image.animation?.frameCount == (frames.count == 1 ? nil : frames.count))
        #expect(image.animation?.loopCount == test.loopCount)
    }

    // Areas are averaged by libwebp, which is softer than the filter of Resize; libjpeg leaves out other detail.
    @Test(
        "get the size that is wanted, as displayed, and look like the whole, resized",
        arguments: [
            ("png/rgb8.png", (20, 20, TargetSize.Mode.fit), (20, 14), 0),
            ("png/rgba8.png", (20, 20, .fit), (20, 14), 0),
            ("png/rgba8-interlaced.png", (20, 20, .fit), (20, 14), 0), ("png/exif6.png", (20, 20, .fit), (14, 20), 0),
            ("webp/lossy.webp", (21, 16, .stretch), (21, 16), 6),
            ("webp/lossless.webp", (21, 16, .stretch), (21, 16), 6),
            ("webp/turned.webp", (1000, 21, .fit), (16, 21), 6), ("webp/lossy.webp", (126, 94, .stretch), (126, 94), 6),
            ("avif/tall.avif", (21, 21, .fit), (3, 21), 6), ("heic/odd.heic", (21, 16, .stretch), (21, 16), 0),
            ("heic/orientation-6.heic", (20, 20, .fit), (10, 20), 0),
            ("jxl/lossy.jxl", (21, 16, .stretch), (21, 16), 0),
            ("jxl/alpha.jxl", (100, 16, .fit), (21, 16), 1), ("jxl/orientation-6.jxl", (10, 100, .fit), (10, 14), 0),
            ("svg/shapes.svg", (16, 12, .fit), (16, 12), 6), ("jpeg/orientation-6.jpg", (10, 100, .fit), (10, 15), 7),
            ("bmp/rgb24.bmp", (20, 20, .fit), (20, 12), 0), ("bmp/runs4.bmp", (20, 20, .fit), (20, 12), 0),
            ("ico/bits32.ico", (10, 10, .fit), (10, 9), 0),
        ].filter { Pictures.isReadable($0.0) } as [(String, (Int, Int, TargetSize.Mode), (Int, Int), Double)])
    func targets(
        _ path: String, _ wanted: (width: Int, height: Int, mode: TargetSize.Mode), _ size: (Int, Int), _ mean: Double
    ) throws {
        let size = PixelSize(width: size.0, height: size.1)
        let target = TargetSize(
            PixelSize(width: wanted.width, height: wanted.height), wanted.mode, allowsUpscaling: wanted.mode == .stretch
        )
        let image = try decode(path, DecodeOptions(target: target))
        try #require(image.size == size)
        let resized = try ImageProcessors.Resize(to: target).process(decode(path), .init())
        #expect(Difference(image.pixels, resized.pixels).mean <= mean)
    }

    // Pillow reduces by Lanczos: a reduced transform leaves out other detail, and at 1/8 gives the mean of each block.
    @Test(
        "of JPEG are reduced in the transform", arguments: [(200, 1.5), (100, 1.8), (80, 1.5), (50, 4.5), (40, 4)])
    func reduced(_ width: Int, _ most: Double) throws {
        let golden = try Golden("jpeg/large-\(width).rgba")
        let options = DecodeOptions(target: TargetSize(golden.size, .stretch))
        let image = try decode("jpeg/large.jpg", options)
        let difference = try Difference(image, golden)
        #expect(difference.mean < most, "\(difference)")
    }

    @Test("of several scans have the same pixels as those of one, in every size", arguments: [400, 200, 80, 50, 40, 7])
    func progressive(_ width: Int) throws {
        let options = DecodeOptions(target: TargetSize(width: width, height: width))
        #expect(try decode("jpeg/large.jpg", options).pixels == decode("jpeg/large-progressive.jpg", options).pixels)
    }

    /// A file, and the least number of times that decoding asks whether it is cancelled. JPEG asks each sixteen rows;
    /// for several scans, each sixteen rows of blocks of each scan besides. GIF asks in the middle of a frame too.
    @Test(
        "are not decoded further once that is cancelled",
        arguments: [
            ("jpeg/large.jpg", 19), ("jpeg/large-progressive.jpg", 26), ("jpeg/cmyk-profile.jpg", 4),
            ("png/rgb8.png", 2), ("png/rgb8-interlaced.png", 2), ("apng/keep-over.png", 2), ("gif/keep.gif", 2),
            ("webp/lossy.webp", 2),
            ("webp/lossless.webp", 2), ("webp/moving.webp", 2), ("avif/tall.avif", 4), ("heic/grid.heic", 6),
            ("jxl/large.jxl", 4), ("svg/shapes.svg", 3),
            ("bmp/rgb24.bmp", 2), ("bmp/runs8.bmp", 20), ("ico/sizes.ico", 2), ("ico/bits8.ico", 2),
        ].filter { Pictures.isReadable($0.0) })
    func cancelled(_ path: String, _ least: Int) throws {
        let asked = Box(0)
        var options = DecodeOptions.with { $0.isolation = .off }
        options.isCancelled = {
            asked.update { $0 += 1 }
            return false
        }
        _ = try decode(path, options)
        #expect(asked.value >= least)
        for count in 0..<asked.value {
            #expect(throws: DipperError.cancelled) { try decode(path, .cancelled(after: count)) }
        }
    }

    #if GIF
        /// A screen with a frame of one black pixel, changed, that comes several times.
        private func gif(_ width: Int, _ height: Int, frames: Int, _ change: (inout [UInt8]) -> Void) -> Data {
            var frame = HeaderBytes.gifFrame
            change(&frame)
            return Data(HeaderBytes.gif(width, height, Array(repeatElement(frame, count: frames).joined()) + [0x3B]))
        }

        @Test("of GIF have nothing of frames of no size, and only the whole rows of one whose pixels end early")
        func shortFrames() throws {
            let empty = gif(3, 2, frames: 2) { $0.replaceSubrange(5..<9, with: [0, 0, 0, 0]) }
            let frames = try GIFDecoder().allFrames(of: empty)
            #expect(frames.count == 2 && frames[0].image.pixels == Image.filled(with: .clear, 3, 2).pixels)
            let short = gif(2, 4, frames: 3) {
                $0.replaceSubrange(5..<9, with: [2, 0, 4, 0])
                // Five pixels in codes of three bits, with a clear code before every second.
                $0.replaceSubrange(17..., with: [4, 0x04, 0x08, 0x10, 0x05, 0])
            }
            let all = try GIFDecoder().allFrames(of: short)
            let pixels = Image.filled(with: .black, 2, 2).pixels + Image.filled(with: .clear, 2, 2).pixels
            #expect(all.count == 3 && all.allSatisfy { $0.image.pixels == pixels })
        }

        @Test("of GIF are not decoded further in the middle of a frame either")
        func cancelledFrame() throws {
            let tall = try GIFEncoder().encode(.filled(with: .clear, 1, 3000), .init())
            #expect(throws: DipperError.cancelled) { try GIFDecoder().decode(tall, .cancelled(after: 3)) }
        }
    #endif

    #if WebP
        @Test("of WebP without loss whose header denies their transparency are not opaque")
        func deniedAlpha() throws {
            let picture = TestPicture(size: PixelSize(width: 2, height: 1), pixels: [9, 9, 9, 255, 5, 6, 7, 100])
            var data = try WebPEncoder().encode(picture.image(), .lossless)
            // `VP8L`, its length, a byte that is always the same; then sizes of 14 bits each, and the hint.
            let chunk = try #require(data.firstRange(of: Data("VP8L".utf8)))
            data[chunk.lowerBound + 12] &= ~0x10
            let flags = data.firstRange(of: Data("VP8X".utf8)).map { $0.lowerBound + 8 }
            if let flags { data[flags] &= ~0x10 }
            let image = try WebPDecoder().decode(data, .init())
            #expect(image[1, 0].w == 100)
            #expect(!image.isOpaque)
        }
    #endif

    #if AVIF
        @Test("of AVIF may have a side of more than 32,768 pixels; what is brighter than white is white")
        func wide() throws {
            #expect(try decode("avif/wide.avif").size == PixelSize(width: 40_000, height: 8))
            let bright = try decode("avif/pq.avif")
            #expect(bright.size == PixelSize(width: 63, height: 47))
            #expect(bright.pixels.contains(255) && bright.isOpaque)
        }

        @Test("of AVIF whose loop restoration leads outside the picture are refused")
        func brokenRestoration() {
            #expect(throws: DipperError.undecodable) { try decode("avif/broken-restoration.avif") }
        }
    #endif
}
