import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Downsample and Resize bring pictures to a size", .timeLimit(.minutes(5)))
struct DownsampleTests {
    private func image(_ width: Int, _ height: Int) throws -> Image {
        let picture = TestPicture.waves(width, height, opaque: false)
        var image = try #require(Image(size: picture.size, premultiplied: picture.pixels, scale: 2))
        image.scale = 2
        return image
    }

    @Test("Identifiers tell every option apart, and stay what they are")
    func identifiers() {
        #expect(ImageProcessors.Downsample(width: 400, height: 300).identifier == "downsample(400x300,fit)")
        #expect(
            ImageProcessors.Resize(width: 400, height: 300, .fill, allowsUpscaling: true).identifier
                == "resize(400x300,fill,up)")
        var all: Set<String> = []
        for mode in TargetSize.Mode.allCases {
            for up in [false, true] {
                for size in [PixelSize(width: 1, height: 23), PixelSize(width: 12, height: 3)] {
                    let target = TargetSize(size, mode, allowsUpscaling: up)
                    all.insert(ImageProcessors.Downsample(to: target).identifier)
                    all.insert(ImageProcessors.Resize(to: target).identifier)
                }
            }
        }
        #expect(all.count == 24)
        let chain = ImageProcessors.Downsample(width: 4, height: 3) |> .resize(width: 2, height: 2)
        #expect(chain.identifier == "downsample(4x3,fit)|>resize(2x2,fit)")
        #expect((chain |> .resize(width: 1, height: 1)).processors.count == 3)
    }

    @Test("Only the first processor of a chain says what size is decoded to")
    func decodeTarget() {
        let target = TargetSize(PixelSize(width: 40, height: 30), .fill)
        let (down, resize) = (ImageProcessors.Downsample(to: target), ImageProcessors.Resize(width: 2, height: 2))
        #expect(down.decodeTarget == target)
        #expect(resize.decodeTarget == nil)
        #expect((down |> resize).decodeTarget == target)
        #expect((resize |> down).decodeTarget == nil)
        #expect((down |> resize |> resize).decodeTarget == target)
    }

    @Test("A picture that has the size already is not made anew")
    func same() throws {
        let image = try image(40, 30)
        for processor: any ImageProcessor in [
            .downsample(width: 40, height: 30), .downsample(width: 100, height: 30), .resize(width: 80, height: 80),
            .resize(width: 40, height: 30, .stretch),
        ] {
            #expect(try processor.process(image, .init()).storage === image.storage)
        }
    }

    @Test("Modes give the sizes they name, and the scale stays")
    func modes() throws {
        let image = try image(60, 40)
        func size(_ processor: some ImageProcessor) throws -> PixelSize {
            let result = try processor.process(image, .init())
            #expect(result.scale == 2 && result.byteCount == result.width * result.height * 4)
            return result.size
        }
        #expect(try size(.resize(width: 30, height: 30)) == PixelSize(width: 30, height: 20))
        #expect(try size(.resize(width: 30, height: 30, .fill)) == PixelSize(width: 45, height: 30))
        #expect(try size(.resize(width: 30, height: 30, .stretch)) == PixelSize(width: 30, height: 30))
        #expect(try size(.resize(width: 120, height: 120)) == PixelSize(width: 60, height: 40))
        #expect(try size(.resize(width: 120, height: 120, allowsUpscaling: true)) == PixelSize(width: 120, height: 80))
        #expect(try size(.downsample(width: 6, height: 6)) == PixelSize(width: 6, height: 4))
    }

    @Test("Limits are held and a cancelled one ends")
    func limits() throws {
        let image = try image(60, 40)
        var context = ProcessingContext()
        context.limits.bytes = 1 << 20
        let large = ImageProcessors.Resize(width: 6000, height: 6000, allowsUpscaling: true)
        #expect(throws: DipperError.imageTooLarge) { _ = try large.process(image, context) }
        context.isCancelled = { true }
        #expect(throws: DipperError.cancelled) {
            _ = try ImageProcessors.Resize(width: 6, height: 6).process(image, context)
        }
    }
}
