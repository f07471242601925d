import TestSupport
import Testing

@Suite("What holds for every processor", .timeLimit(.minutes(2)))
struct ProcessorRuleTests {
    @Test("no colour is ever above its alpha, what says that it is opaque is, and the scale of the picture stays")
    func premultiplied() throws {
        var image = try Processed.noise(37, 29)
        image.scale = 2.5
        for processor in try Processed.all() {
            let result = try processor.process(image, .init())
            let pixels = result.pixels
            #expect(pixels.indices.allSatisfy { pixels[$0] <= pixels[$0 | 3] }, "\(processor.identifier)")
            let isOpaque = stride(from: 3, to: pixels.count, by: 4).allSatisfy { pixels[$0] == 255 }
            #expect(result.isOpaque == isOpaque && result.scale == 2.5, "\(processor.identifier)")
        }
    }

    @Test("an arc so small that nothing is missing leaves an opaque picture opaque, and no larger one does")
    func smallArcs() throws {
        let image = try Processed.picture("photo")
        for radius in [1e-9, 1.0 / 513, 0.05, 0.09, 0.1, 0.19, 0.2, 0.5, 3] {
            let result = try ImageProcessors.RoundedCorners(radius: .pixels(radius)).process(image, .init())
            #expect(result.isOpaque == (result[0, 0].w == 255), "\(radius)")
            #expect(result.isOpaque == (radius < 0.095), "\(radius)")
        }
    }

    @Test("what changes colours, or moves pixels, keeps an opaque picture opaque")
    func opaque() throws {
        let image = try Processed.picture("photo")
        let color = Color(hex: 0x30a0ff, alpha: 0.3)
        let processors: [any ImageProcessor] = [
            .downsample(width: 9, height: 9), .scale(by: 2), .crop(width: 5, height: 5), .blur(0.7), .blur(6),
            .blur(40),
            .overlay(color), .tint(color), .colorControls(contrast: 3, exposure: 2), .monochrome,
            .border(color, width: 3, radius: 9), .blend(color, .softLight), .blend(.clear, .multiply),
            .crop(toRatio: 1), .whiteBalance(temperature: 9000), .storyboard(columns: 3, rows: 2), .soulOut(),
            .flip(.vertical), .rotate(degrees: 270), .rotate(degrees: 45, background: .white),
            .roundedCorners(radius: 8, background: .black), .circle(background: .white),
            .fitting(width: 50, height: 20, background: .white),
        ]
        for processor in processors {
            let result = try processor.process(image, .init())
            #expect(result.isOpaque, "\(processor.identifier)")
        }
    }

    @Test("settings that change nothing give the picture back, with the same memory")
    func identity() throws {
        let (soft, photo) = (try Processed.picture("soft"), try Processed.picture("photo"))
        let nothing: [any ImageProcessor] = [
            .downsample(width: 40, height: 30), .downsample(width: 90, height: 90), .downsample(width: 100, height: 30),
            .scale(by: 1), .crop(width: 40, height: 99),
            .crop(to: PixelRect(x: -5, y: 0, width: 100, height: 100)), .fitting(width: 40, height: 30),
            .fitting(width: 1, height: 1, .original), .roundedCorners(radius: 0),
            .roundedCorners(radius: 9, corners: []), .border(.black, width: 0), .border(.clear, width: 3), .blur(0),
            .blur(0.1), .colorControls(), .rotate(degrees: 0), .rotate(degrees: -720),
            .monochrome(.white, intensity: 0), .chain([]), .crop(toRatio: 4 / 3), .whiteBalance(),
            .storyboard(columns: 1, rows: 1),
        ]
        for processor in nothing {
            #expect(try processor.process(soft, .init()).storage === soft.storage, "\(processor.identifier)")
        }
        let still = ImageProcessors.Rotate(degrees: 0, background: .white)
        #expect(try still.process(photo, .init()).storage === photo.storage)
    }

    @Test("a colour under something transparent is not seen at its edges")
    func fringes() throws {
        // Full red in the middle of nothing: whatever the alpha, red must go with it.
        let pixels = (0..<40 * 30).flatMap { (index: Int) -> [UInt8] in
            (10..<30).contains(index % 40) && (8..<22).contains(index / 40) ? [255, 0, 0, 255] : [0, 0, 0, 0]
        }
        let image = try TestPicture(size: PixelSize(width: 40, height: 30), pixels: pixels).image()
        let processors: [any ImageProcessor] = [
            .blur(0.8), .blur(3), .blur(9), .rotate(degrees: 17), .downsample(width: 13, height: 13), .scale(by: 1.3),
            .downsample(width: 6, height: 6, .stretch), .resize(width: 97, height: 97, .stretch),
            .roundedCorners(radius: 14.5), .circle, .colorControls(saturation: 1, exposure: 0.4),
            .border(.clear, width: 2), .storyboard(columns: 2, rows: 2), .soulOut(), .whiteBalance(temperature: 9000),
        ]
        for processor in processors {
            let pixels = try processor.process(image, .init()).pixels
            for start in stride(from: 0, to: pixels.count, by: 4) {
                let (colors, alpha) = (pixels[start..<start + 3], pixels[start + 3])
                #expect(colors.elementsEqual([alpha, 0, 0]), "\(processor.identifier)")
            }
        }
    }

    /// Blurs and sizes, the last of them one that is averaged over boxes.
    private static let smoothing: [any ImageProcessor] =
        [0.3, 1, 3, 5, 12, 80, 5000, 1e12].map { .blur($0) }
        + [1, 9, 64, 500].map { .resize(width: $0, height: 3, .stretch) }

    @Test("an even colour stays what it is", arguments: [(1, 1), (2, 17), (40, 3), (7, 2), (100, 2), (333, 2)])
    func even(width: Int, height: Int) throws {
        let colors = [
            Color(hex: 0xc803ff), Color(hex: 0xe400fc, alpha: 0.4), .clear, Color(hex: 0xffffff, alpha: 1 / 255.0),
        ]
        for color in colors {
            let image = Image.filled(with: color, width, height)
            for processor in Self.smoothing {
                let result = try processor.process(image, .init())
                let same = Image.filled(with: color, result.width, result.height)
                #expect(result.pixels == same.pixels, "\(processor.identifier)")
            }
        }
    }

    @Test("the first processor of a chain alone says what size is decoded to")
    func decodeTarget() {
        let target = TargetSize(width: 40, height: 30, .fill)
        let (down, resize) = (ImageProcessors.Resize(to: target), ImageProcessors.Resize(width: 2, height: 2))
        #expect(down.decodeTarget == target && resize.decodeTarget?.size == PixelSize(width: 2, height: 2))
        #expect((down |> resize |> resize).decodeTarget == target)
        #expect((ImageProcessors.Circle() |> down).decodeTarget == nil)
    }

    @Test("work that nobody waits for ends; limits are held before memory is taken, that of pixels too")
    func limits() throws {
        let image = try Processed.noise(37, 29)
        var limits = DecodeLimits()
        limits.bytes = 100
        for processor in try Processed.all() {
            #expect(throws: DipperError.cancelled, "\(processor.identifier)") {
                _ = try processor.process(image, ProcessingContext(isCancelled: { true }))
            }
            #expect(throws: DipperError.imageTooLarge, "\(processor.identifier)") {
                _ = try processor.process(image, ProcessingContext(limits: limits))
            }
        }
        limits = DecodeLimits()
        limits.pixels = 37 * 29
        let larger: [any ImageProcessor] = [
            .resize(width: 74, height: 58), .scale(by: 1.1),
            .fitting(width: 38, height: 29), .rotate(degrees: 10),
        ]
        for processor in larger {
            #expect(throws: DipperError.imageTooLarge, "\(processor.identifier)") {
                _ = try processor.process(image, ProcessingContext(limits: limits))
            }
        }
    }

    @Test("silly settings are an error of ours, or have a rule")
    func hostile() throws {
        let image = try Processed.noise(13, 9)
        let tiny = try Processed.noise(1, 1)
        let numbers: [Double] = [
            0, -0.0, -1, 1e-300, 1e300, .infinity, -.infinity, .nan, .greatestFiniteMagnitude, 0.5, 7,
        ]
        let lengths = [0, -1, 1, 7, Int.max, Int.min, 1 << 40]
        var processors: [any ImageProcessor] = []
        for number in numbers {
            let color = Color(red: number, green: number, blue: number, alpha: number)
            processors += [
                .scale(by: number), .blur(number), .rotate(degrees: number), .colorControls(brightness: number),
                .colorControls(contrast: number), .colorControls(saturation: number), .colorControls(exposure: number),
                .monochrome(color, intensity: number), .overlay(color, fraction: number), .tint(color),
                .crop(width: 3, height: 3, anchor: ImageProcessors.Anchor(x: number, y: number)),
                .crop(toRatio: number),
                .whiteBalance(temperature: number), .whiteBalance(tint: number), .soulOut(scale: number),
                .soulOut(opacity: number),
                .blend(color, .softLight, opacity: number), .fitting(width: 40, height: 9, background: color),
                .fitting(width: 9, height: 4, .unscaled(at: ImageProcessors.Anchor(x: number, y: number))),
            ]
            for length: ImageProcessors.Length in [
                .pixels(number), .points(number), .fractionOfWidth(number), .fractionOfHeight(number),
            ] {
                processors += [
                    .roundedCorners(radius: length), .roundedCorners(radius: length, corners: .topRight),
                    .border(color, width: length, radius: 3), .border(.black, width: 2, radius: length),
                ]
            }
        }
        for width in lengths {
            for height in lengths {
                processors += [
                    .resize(width: width, height: height, .stretch),
                    .crop(width: width, height: height), .storyboard(columns: width, rows: height),
                    .crop(to: PixelRect(x: width, y: height, width: 3, height: 3)),
                    .crop(to: PixelRect(x: 1, y: 1, width: width, height: height)),
                    .crop(to: PixelRect(x: width, y: 2, width: height, height: width)),
                    .fitting(width: width, height: height), .fitting(width: width, height: height, .topLeft),
                ]
            }
        }
        var context = ProcessingContext()
        context.limits.bytes = 1 << 16
        for processor in processors {
            for picture in [image, tiny] {
                do {
                    #expect(try processor.process(picture, context).byteCount > 0)
                } catch {
                    let isNamed = [.processingFailed, .imageTooLarge].contains(error as? DipperError)
                    #expect(isNamed, "\(processor.identifier): \(error)")
                }
            }
        }
        let refused: [any ImageProcessor] = [
            .downsample(width: 0, height: 0), .downsample(width: 0, height: 100), .downsample(width: -5, height: 10),
            .downsample(width: 0, height: 0), .downsample(width: 0), .downsample(height: -1),
            .downsample(width: 3, height: 0, .stretch),
            .fitting(width: 0, height: 9), .fitting(width: 9, height: 0, .center), .scale(by: .nan),
            .scale(by: .infinity), .scale(by: 0), .roundedCorners(radius: .pixels(.nan)), .border(.black, width: -1),
            .rotate(degrees: .nan), .crop(width: -3, height: 4), .blur(-1),
            .crop(width: 0, height: 4), .blur(.nan), .roundedCorners(radius: -3),
            .crop(to: PixelRect(x: 13, y: 0, width: 5, height: 5)), .storyboard(columns: 14, rows: 1),
            .storyboard(columns: 1, rows: 0), .whiteBalance(temperature: 1999), .whiteBalance(temperature: 15_001),
            .whiteBalance(temperature: .nan), .whiteBalance(tint: .infinity), .whiteBalance(tint: .nan),
            .soulOut(scale: 0.9), .soulOut(scale: .nan), .soulOut(scale: .infinity), .crop(toRatio: 0),
            .crop(toRatio: -1), .crop(toRatio: .nan), .crop(toRatio: .infinity),
        ]
        for processor in refused {
            #expect(throws: DipperError.processingFailed) { try processor.process(image, .init()) }
        }
    }

    // MARK: Identifiers

    @Test("no two of them are alike, but for what does not count")
    func pairs() throws {
        let (a, b) = (Color(hex: 0x102030), Color(red: 0.1, green: 0.2, blue: 0.3))
        let (one, two) = (try Processed.noise(5, 4, seed: 1), try Processed.noise(5, 4, seed: 2))
        let turned = try Processed.noise(4, 5, seed: 1)
        var all: [any ImageProcessor] = [
            .downsample(width: 4, height: 5), .downsample(width: 5, height: 4), .downsample(width: 4, height: 5, .fill),
            .resize(width: 4, height: 5), .downsample(width: 4), .downsample(height: 4),
            .downsample(width: 4, height: 5).points, .scale(by: 0.1), .scale(by: 0.1.nextUp),
            .crop(width: 4, height: 5),
            .crop(width: 4, height: 5, anchor: .top), .crop(width: 4, height: 5).points,
            .crop(width: 4, height: 5, anchor: ImageProcessors.Anchor(x: 0.5, y: 1e-9)),
            .crop(to: PixelRect(x: 0, y: 0, width: 4, height: 5)),
            .crop(to: PixelRect(x: 1, y: 0, width: 4, height: 5)),
            .crop(to: PixelRect(x: 0, y: -1, width: 4, height: 5)), .crop(toRatio: 4 / 5), .crop(toRatio: 5 / 4),
            .crop(toRatio: 4 / 5, anchor: .top), .fitting(width: 4, height: 5),
            .fitting(width: 4, height: 5, .aspectFill), .fitting(width: 4, height: 5, .aspectFit.at(.top)),
            .fitting(width: 4, height: 5, .center), .fitting(width: 4, height: 5, .original),
            .fitting(width: 4, height: 5, .scaleToFill), .fitting(width: 4, height: 5, background: a),
            .fitting(width: 4, height: 5, background: b), .fitting(width: 4, height: 5).points,
            .fitting(width: 4, height: 5, allowsUpscaling: false),
            .roundedCorners(radius: 4), .roundedCorners(radius: .points(4)),
            .roundedCorners(radius: .fractionOfWidth(4)), .roundedCorners(radius: .fractionOfHeight(4)),
            .roundedCorners(radius: 4, corners: .top), .roundedCorners(radius: 4, corners: .bottom),
            .roundedCorners(radius: 4, background: a), .circle,
            .circle(background: a), .border(a, width: 4), .border(b, width: 4), .border(a, width: 5),
            .border(a, width: 4, radius: 1), .border(a, width: 4, radius: 1, corners: .left), .blur(1),
            .blur(1.0000001),
            .overlay(a), .overlay(b), .overlay(a, fraction: 0.25), .tint(a), .tint(b), .tint(a.with(alpha: 0.5)),
            .colorControls(brightness: 0.5), .colorControls(contrast: 0.5), .colorControls(saturation: 0.5),
            .colorControls(exposure: 0.5),
            .whiteBalance(), .whiteBalance(temperature: 5000), .whiteBalance(tint: 50),
            .storyboard(columns: 4, rows: 5), .storyboard(columns: 5, rows: 4), .soulOut(), .soulOut(scale: 2),
            .soulOut(opacity: 0.25),
            .monochrome, .monochrome(a), .monochrome(b), .monochrome(a, intensity: 0.5), .blend(one), .blend(two),
            .blend(turned), .blend(one, anchor: .top), .blend(one, opacity: 0.5), .blend(one, side: .below),
            .blend(a, opacity: 0.5), .blend(a.with(alpha: 0.5)), .rotate(degrees: 1), .rotate(degrees: -1),
            .rotate(degrees: 1, background: a), .rotate(degrees: 1, expands: false), .flip(.horizontal),
            .flip(.vertical), .custom("a") { image, _ in image }, .custom("b") { image, _ in image },
        ]
        all += ImageProcessors.Blend.Mode.allCases.flatMap { mode -> [any ImageProcessor] in
            [.blend(a, mode), .blend(a, mode, side: .below), .blend(b, mode)]
        }
        let identifiers = all.map(\.identifier)
        let repeated = Dictionary(grouping: identifiers) { $0 }.filter { $0.value.count > 1 }.keys
        #expect(repeated.isEmpty)
        #expect(!identifiers.contains { $0.contains("|>") || $0.contains("\n") })
        let translucent = ImageProcessors.Monochrome(a.with(alpha: 0.5))
        #expect(translucent.identifier == ImageProcessors.Monochrome(a).identifier)
    }

    @Test("they are the same in every run: they name files on disk")
    func stable() throws {
        let mark = try #require(Image(size: PixelSize(width: 2, height: 1), premultiplied: [1, 2, 3, 4, 9, 9, 9, 255]))
        let expected: [(any ImageProcessor, String)] = [
            (.resize(width: 400, height: 300), "resize(400x300,fit,up)"),
            (.downsample(width: 400, height: 300).points, "resize(400x300pt,fit)"),
            (.fitting(width: 4, height: 3).points, "fitting(4x3pt,aspectFit,0.5:0.5,00000000)"),
            (.crop(width: 4, height: 3).points, "crop(4x3pt,0.5:0.5)"),
            (.resize(to: TargetSize(mark.size)), "resize(2x1,fit)"),
            (.downsample(width: 4, height: 3, .fill), "resize(4x3,fill)"), (.scale(by: 0.5), "scale(0.5)"),
            (.crop(to: PixelRect(x: 10, y: -2, width: 4, height: 3)), "crop(4x3+10-2)"),
            (.crop(toRatio: 1.5, anchor: .top), "crop(1.5,0.5:0.0)"),
            (.whiteBalance(temperature: 5000), "whitebalance(5000.0,0.0)"),
            (.storyboard(columns: 3, rows: 2), "storyboard(3x2)"), (.soulOut(), "soulout(1.5,0.5)"),
            (.rotate(degrees: 90, expands: false), "rotate(90.0,00000000,cut)"), (.circle, "circle(00000000)"),
            (.monochrome, "monochrome(ffffffff,1.0)"), (.tint(.black), "tint(000000ff)"),
            (.overlay(.black), "overlay(000000ff,0.5)"), (.custom("a") { image, _ in image }, "custom(a)"),
            (.chain([.blur(1), .flip(.horizontal)]), "blur(1.0)|>flip(horizontal)"),
            (.fitting(width: 4, height: 3, .top, background: .white), "fitting(4x3,unscaled,0.5:0.0,ffffffff)"),
            (.roundedCorners(radius: .points(8), corners: .top), "round(8.0pt,3,00000000)"),
            (.border(Color(red: 0.1, green: 0, blue: 0), width: 2), "border(0.1:0.0:0.0:1.0,2.0,0.0,15)"),
            (.blur(10), "blur(10.0)"), (.colorControls(exposure: 0.7), "colors(0.0,1.0,1.0,0.7)"),
            (.blend(.black, .multiply), "blend(multiply,above,1.0,000000ff)"),
            (.crop(width: 2, height: 2, anchor: .bottomRight) |> .flip(.vertical), "crop(2x2,1.0:1.0)|>flip(vertical)"),
            (.blend(mark, anchor: .topLeft), "blend(over,above,1.0,2x1-76a04390a635043b,0.0:0.0)"),
        ]
        for (processor, identifier) in expected { #expect(processor.identifier == identifier) }
        let blend = ImageProcessors.Blend(mark)
        #expect(blend == ImageProcessors.Blend(mark) && blend != ImageProcessors.Blend(mark, opacity: 0.5))
    }

    @Test("lengths in points depend on the scale, and no others")
    func scale() throws {
        #expect(ImageProcessors.RoundedCorners(radius: .points(2)).usesScale)
        #expect(ImageProcessors.Border(.black, width: .points(1)).usesScale)
        #expect((ImageProcessors.Crop(width: 1, height: 1) |> .roundedCorners(radius: .points(2))).usesScale)
        #expect(!ImageProcessors.RoundedCorners(radius: 2).usesScale && !ImageProcessors.Blur(2).usesScale)
        var image = try Processed.picture("photo")
        image.scale = 2
        let round = try ImageProcessors.RoundedCorners(radius: .points(5)).process(image, .init())
        #expect(try Difference(round, Golden("processed/round.rgba")).largest <= 1)
    }

    @Test("sizes in points are multiplied by the scale of the picture; a scale without sense is an error")
    func points() throws {
        var image = try Processed.noise(37, 29)
        let sizes: [any ImageProcessor] = [
            .downsample(width: 6, height: 5, .stretch).points, .resize(width: 6, height: 5, .stretch).points,
            .fitting(width: 6, height: 5, .aspectFill).points, .fitting(width: 6, height: 5, .top).points,
            .crop(width: 6, height: 5).points, .crop(to: PixelRect(x: 2, y: 1, width: 6, height: 5)).points,
        ]
        for processor in sizes {
            #expect(processor.usesScale, "\(processor.identifier)")
            for scale in [1.0, 1.5, 2] {
                image.scale = scale
                let size = try image.processed(by: processor).size
                let wanted = PixelSize(width: Int((6 * scale).rounded()), height: Int((5 * scale).rounded()))
                #expect(size == wanted, "\(processor.identifier)")
            }
            for scale in [0, -1, .nan] {
                image.scale = scale
                #expect(throws: DipperError.processingFailed) { try image.processed(by: processor) }
            }
        }
        image.scale = .infinity
        #expect(throws: DipperError.imageTooLarge) { try image.processed(by: .resize(width: 6, height: 5).points) }
        #expect(try image.processed(by: .downsample(width: 6, height: 5).points).size == image.size)
        image.scale = 2
        #expect(try image.processed(by: .downsample(width: 5).points).size == PixelSize(width: 10, height: 8))
        let part = try image.processed(by: .crop(to: PixelRect(x: 2, y: 1, width: 6, height: 5)).points)
        #expect(try part.pixels == image.processed(by: .crop(to: PixelRect(x: 4, y: 2, width: 12, height: 10))).pixels)
    }

    @Test("what is resized or fitted becomes as large as it says; what is downsampled stays as small as it is")
    func enlarging() throws {
        let image = try Processed.noise(10, 8)
        let (size, larger) = (PixelSize(width: 10, height: 8), PixelSize(width: 20, height: 16))
        for processor: any ImageProcessor in [
            .resize(width: 20, height: 16), .resize(width: 20), .resize(height: 16), .fitting(width: 20, height: 16),
            .resize(to: TargetSize(larger, allowsUpscaling: true)),
        ] { #expect(try image.processed(by: processor).size == larger, "\(processor.identifier)") }
        for processor: any ImageProcessor in [
            .downsample(width: 20, height: 16), .downsample(width: 20), .downsample(height: 16),
            .resize(to: TargetSize(larger)),
        ] { #expect(try image.processed(by: processor).size == size, "\(processor.identifier)") }
    }
}
