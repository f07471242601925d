import Dipper
import Testing

@Suite("Identifiers tell every setting from every other", .timeLimit(.minutes(2)))
struct ProcessorIdentifierTests {
    @Test("no two of them are alike, but for what does not count")
    func pairs() throws {
        let (a, b) = (Color(hex: 0x102030), Color(red: 0.1, green: 0.2, blue: 0.3))
        let (one, two) = (try Processed.noise(5, 4, seed: 1), try Processed.noise(5, 4, seed: 2))
        let turned = try Processed.noise(4, 5, seed: 1)
        var all: [any ImageProcessor] = [
            .resize(width: 4, height: 5), .resize(width: 5, height: 4), .resize(width: 4, height: 5, .fill),
            .resize(width: 4, height: 5, allowsUpscaling: true), .resize(width: 4), .resize(height: 4),
            .downsample(width: 4, height: 5), .scale(by: 0.1), .scale(by: 0.1.nextUp), .crop(width: 4, height: 5),
            .crop(width: 4, height: 5, anchor: .top),
            .crop(width: 4, height: 5, anchor: ImageProcessors.Anchor(x: 0.5, y: 1e-9)),
            .crop(to: PixelRect(x: 0, y: 0, width: 4, height: 5)),
            .crop(to: PixelRect(x: 1, y: 0, width: 4, height: 5)),
            .crop(to: PixelRect(x: 0, y: -1, width: 4, height: 5)), .crop(toRatio: 4 / 5), .crop(toRatio: 5 / 4),
            .crop(toRatio: 4 / 5, anchor: .top), .fitting(width: 4, height: 5),
            .fitting(width: 4, height: 5, .aspectFill), .fitting(width: 4, height: 5, .aspectFit.at(.top)),
            .fitting(width: 4, height: 5, .center), .fitting(width: 4, height: 5, .original),
            .fitting(width: 4, height: 5, .scaleToFill), .fitting(width: 4, height: 5, background: a),
            .fitting(width: 4, height: 5, background: b), .fitting(width: 4, height: 5, allowsUpscaling: false),
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
            (.resize(width: 400, height: 300), "resize(400x300,fit)"),
            (.resize(to: TargetSize(mark.size)), "resize(2x1,fit)"),
            (.downsample(width: 4, height: 3, .fill), "downsample(4x3,fill)"),
            (.downsample(to: TargetSize(mark.size)), "downsample(2x1,fit)"), (.scale(by: 0.5), "scale(0.5)"),
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
}
