import TestSupport
import Testing

@Suite("Small texts that become placeholders", .timeLimit(.minutes(2)))
struct PlaceholderTests {
    /// The pictures of which the reference hashes were made.
    private func picture(_ width: Int, _ height: Int, hasHole: Bool = false) throws -> Image {
        let pixels = (0..<height).flatMap { y in
            (0..<width).flatMap { x -> [UInt8] in
                if hasHole, x + y < 12 { return [0, 0, 0, 0] }
                let (red, green) = ((x * 37 + y * 91 + x * y * 13) % 251, (x * x * 3 + y * 11) % 241)
                return [UInt8(red), UInt8(green), UInt8((y * y * 5 + x * 7 + 40) % 239), 255]
            }
        }
        return try #require(Image(size: PixelSize(width: width, height: height), premultiplied: pixels))
    }

    private func expect(
        _ image: Image?, _ size: [Int], _ pixels: [(x: Int, y: Int, pixel: [UInt8])],
        _ place: SourceLocation = #_sourceLocation
    ) throws {
        let image = try #require(image, sourceLocation: place)
        #expect([image.width, image.height] == size, sourceLocation: place)
        for (x, y, wanted) in pixels {
            let pixel = image[x, y]
            let isNear = (0..<4).allSatisfy { abs(Int(pixel[$0]) - Int(wanted[$0])) <= 1 }
            #expect(isNear, "\(pixel) in place of \(wanted)", sourceLocation: place)
        }
    }

    // MARK: ThumbHash

    @Test(
        "a picture's ThumbHash is the one that the published algorithm makes",
        arguments: [
            (40, 30, false, "HhgCDYQsolNnlmaCQEMoibCYhYv3"), (24, 60, false, "3gcCAwIjF3kIMgRK+vOOjPs="),
            (100, 10, false, "HRgGAYKGWAVoiIdngDPId48="), (40, 30, true, "HgiCDIQeP8SJyLNQCpxallYPQgYxNVRmBw=="),
            (20, 20, true, "H/iBDQQs33gbVFrJiKqwBLOKUHcwh3V5eA=="),
        ])
    func thumbHash(width: Int, height: Int, hasHole: Bool, hash: String) throws {
        #expect(try picture(width, height, hasHole: hasHole).thumbHash() == hash)
    }

    @Test("a ThumbHash becomes the picture of the published algorithm, in about the proportions of the original")
    func ofThumbHash() throws {
        // From the examples of the algorithm's page.
        try expect(
            Image(thumbHash: "1QcSHQRnh493V4dIh4eXh1h4kJUI"), [23, 32],
            [
                (0, 0, [64, 78, 113, 255]), (11, 16, [140, 110, 89, 255]), (22, 31, [0, 4, 40, 255]),
                (3, 28, [0, 3, 26, 255]),
            ])
        try expect(
            Image(thumbHash: "3OcRJYB4d3h/iIeHeEh3eIhw+j3A"), [32, 23],
            [(0, 0, [125, 137, 159, 255]), (16, 11, [113, 125, 139, 255]), (31, 22, [87, 99, 46, 255])])
        let withAlpha = Image(thumbHash: "nwiONJoekImTiYl4qAiIgI8HQgYxNVRmBw==")
        try expect(
            withAlpha, [32, 26],
            [
                (0, 0, [0, 0, 0, 0]), (16, 13, [124, 122, 108, 255]), (31, 25, [252, 242, 177, 252]),
                (3, 22, [20, 228, 43, 228]),
            ])
        #expect(withAlpha?.isOpaque == false)
        let forURLs = "3OcRJYB4d3h_iIeHeEh3eIhw-j3A"
        #expect(Image(thumbHash: forURLs)?.pixels == Image(thumbHash: "3OcRJYB4d3h/iIeHeEh3eIhw+j3A")?.pixels)
        #expect(Image(thumbHash: "nggOMxqAc4d3h3eHaYAH+Hg") != nil, "without padding")
    }

    @Test("a large picture's hashes are those of a small form of it")
    func large() throws {
        let large = try picture(1000, 700)
        let small = try large.processed(by: .downsample(width: 100, height: 100))
        #expect(try large.thumbHash() == small.thumbHash() && large.blurHash() == small.blurHash())
    }

    // MARK: BlurHash

    @Test(
        "a picture's BlurHash is the one that the published algorithm makes",
        arguments: [
            (40, 30, 4, 3, "L7HBuc%7q?xl-WjWRknpuorfQTM_"), (24, 60, 3, 5, "c3HBxp~3q[tSrBw8@tRYD*bfMk+P*fR2H+"),
            (40, 30, 1, 1, "00HBuc"), (40, 30, 1, 9, "=7HBuc-Wuox@t6;8xt.5Ia"), (40, 30, 0, -5, "00HBuc"),
        ])
    func blurHash(width: Int, height: Int, x: Int, y: Int, hash: String) throws {
        #expect(try picture(width, height).blurHash(components: (x: x, y: y)) == hash)
    }

    @Test("a BlurHash becomes the picture of the published algorithm, in the proportions that are given")
    func ofBlurHash() throws {
        try expect(
            Image(blurHash: "LEHV6nWB2yk8pyo0adR*.7kCMdnj", for: PixelSize(width: 4000, height: 3000)), [32, 24],
            [
                (0, 0, [135, 164, 177, 255]), (16, 12, [158, 125, 108, 255]), (31, 23, [132, 142, 147, 255]),
                (3, 20, [135, 144, 147, 255]),
            ])
        try expect(
            Image(blurHash: "LKO2?U%2Tw=w]~RBVZRi};RPxuwH", for: PixelSize(width: 32, height: 24)), [32, 24],
            [(0, 0, [251, 193, 161, 255]), (16, 12, [196, 161, 159, 255]), (31, 23, [192, 191, 182, 255])])
        #expect(Image(blurHash: "00HBuc")?.size == PixelSize(width: 32, height: 32))
        #expect(Image(blurHash: "00HBuc", for: PixelSize(width: .max, height: 1))?.size.height == 1)
        #expect(Image(blurHash: "00HBuc", for: PixelSize(width: 0, height: 1)) == nil)
    }

    // MARK: Foreign text

    @Test("text that is no hash is none, whatever it is")
    func foreign() throws {
        let thumb = "1QcSHQRnh493V4dIh4eXh1h4kJUI", blur = "LEHV6nWB2yk8pyo0adR*.7kCMdnj"
        for text in [
            "", "a", "====", "1QcS", "1QcSHQ==", String(repeating: "A", count: 1 << 20), "ü" + thumb, "\0\0\0\0",
        ] {
            #expect(Image(thumbHash: text) == nil, "\(text.prefix(40))")
        }
        for text in [
            "", "L", "LEHV6n", "LE~~~~" + blur.dropFirst(6), "ü" + blur, blur + "0",
        ] {
            #expect(Image(blurHash: text) == nil, "\(text)")
        }
        #expect(Image(blurHash: blur.dropLast(2) + "~~") == nil, "a wave beyond the steps")
        // The same changed texts in each run.
        var state: UInt32 = 61
        func below(_ count: Int) -> Int {
            state = state &* 1_664_525 &+ 1_013_904_223
            return Int(state >> 8) % count
        }
        for hash in [thumb, blur] {
            for _ in 0..<1_000 {
                var bytes = Array(hash.utf8)
                for _ in 0...below(4) { bytes[below(bytes.count)] = UInt8(32 + below(95)) }
                let text = String(
                    decoding: bytes.prefix(below(8) == 0 ? below(bytes.count) : bytes.count), as: UTF8.self)
                for image in [Image(thumbHash: text), Image(blurHash: text)].compactMap(\.self) {
                    #expect(image.width <= 32 && image.height <= 32, "\(text)")
                }
            }
        }
    }

    // MARK: Colours, pixels

    @Test("the average colour leaves out what is transparent")
    func averageColor() throws {
        let image = try #require(
            Image(
                size: PixelSize(width: 2, height: 2),
                premultiplied: [255, 0, 0, 255, 0, 0, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0] as [UInt8]))
        #expect(image.averageColor.hex == "800080ff")
        #expect(Image.filled(with: .clear).averageColor == .clear)
        #expect(Image.filled(with: Color(hex: 0x123456, alpha: 1)).averageColor.hex == "123456ff")
    }

    @Test("hashes are placeholders of a display; text that is none leaves it without")
    func placeholders() throws {
        let display = RecordingDisplay()
        let binding = ImageBinding(display, cache: ImageCache(), queue: .inPlace)
        let none: URL? = nil
        binding.setImage(none, placeholder: .thumbHash("1QcSHQRnh493V4dIh4eXh1h4kJUI"))
        binding.setImage(none, placeholder: .blurHash("00HBuc", for: PixelSize(width: 3, height: 2)))
        binding.setImage(none, placeholder: .thumbHash("no hash"))
        #expect(display.descriptions == ["placeholder 23x32", "placeholder 32x21", "nothing"])
    }

    @Test("straight pixels have no gaps, and colours that are divided by alpha")
    func straight() throws {
        let image = try #require(
            Image(
                size: PixelSize(width: 2, height: 2),
                premultiplied: [64, 32, 0, 128, 0, 0, 0, 0, 9, 8, 7, 255, 1, 1, 1, 1] as [UInt8]))
        #expect(image.straightRGBA() == [128, 64, 0, 128, 0, 0, 0, 0, 9, 8, 7, 255, 255, 255, 255, 1])
        let opaque = Image.sample(5, 3)
        #expect(opaque.straightRGBA() == opaque.pixels)
    }
}
