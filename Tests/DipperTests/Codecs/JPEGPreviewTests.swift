import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Previews of progressive JPEG while bytes arrive", .timeLimit(.minutes(5))) struct JPEGPreviewTests {
    private func previews(of data: Data, step: Int) -> (lengths: [Int], state: ProgressiveJPEG) {
        var state = ProgressiveJPEG()
        var lengths: [Int] = []
        for count in stride(from: 0, to: data.count + step, by: step) {
            if let length = state.preview(in: data.prefix(count)) { lengths.append(length) }
        }
        return (lengths, state)
    }

    @Test("come after scans, get better, and none costs much more than it brings")
    func better() throws {
        let data = try Pictures.data("jpeg/large-progressive.jpg")
        let (lengths, state) = previews(of: data, step: 256)
        #expect(state.isProgressive == true)
        #expect(state.completeScans == JPEGFile(data).scans.count)
        #expect(state.usableLength == data.count - 2)
        #expect((3...8).contains(lengths.count), "\(lengths)")

        let whole = try JPEGDecoder().decode(data, DecodeOptions()).pixels
        var options = DecodeOptions()
        options.allowsPartial = true
        var last = Double.infinity
        for length in lengths {
            let image = try JPEGDecoder().decode(data.prefix(length), options)
            #expect(image.isOpaque)
            let error = Difference(image.pixels, whole).mean
            #expect(error < last, "\(length) bytes")
            last = error
        }
        // Without the marker of the end the last one is all of it.
        #expect(last == 0)
    }

    @Test("the first has all colours")
    func first() throws {
        let data = try Pictures.data("jpeg/large-progressive.jpg")
        let length = try #require(previews(of: data, step: 64).lengths.first)
        #expect(length < data.count / 3)
        var options = DecodeOptions(target: TargetSize(PixelSize(width: 40, height: 30)))
        options.allowsPartial = true
        let image = try JPEGDecoder().decode(data.prefix(length), options)
        let whole = try JPEGDecoder().decode(data, options)
        // At an eighth of the size little is missing but the finest steps.
        #expect(Difference(image.pixels, whole.pixels).mean < 5)
    }

    @Test("are the same however the bytes are split")
    func splits() throws {
        let data = try Pictures.data("jpeg/progressive.jpg")
        let (byOne, state) = previews(of: data, step: 1)
        var atOnce = ProgressiveJPEG()
        #expect(atOnce.preview(in: data) == byOne.last)
        #expect(atOnce.completeScans == state.completeScans)
        #expect(atOnce.preview(in: data) == nil)
    }

    @Test("there are none of baseline files, other formats and broken ones")
    func none() throws {
        for name in ["large", "scans", "arithmetic", "cmyk-profile"] {
            let (lengths, state) = previews(of: try Pictures.data("jpeg/\(name).jpg"), step: 100)
            #expect(lengths.isEmpty)
            #expect(state.isProgressive == false)
        }
        #expect(previews(of: Data(repeating: 0xFF, count: 1000), step: 10).lengths.isEmpty)
        #expect(previews(of: Data("GIF89a, and so on".utf8), step: 1).lengths.isEmpty)
    }
}
