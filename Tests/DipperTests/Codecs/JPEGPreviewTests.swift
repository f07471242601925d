import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Previews of progressive JPEG while bytes arrive", .timeLimit(.minutes(2))) struct JPEGPreviewTests {
    private func previews(of data: Data, step: Int) -> (lengths: [Int], state: ProgressiveJPEG) {
        var state = ProgressiveJPEG()
        var lengths: [Int] = []
        for count in stride(from: 0, to: data.count + step, by: step) {
            if let length = state.preview(in: data.prefix(count)) { lengths.append(length) }
        }
        return (lengths, state)
    }

    @Test("come after scans and get better; the first has all colours, and the last is all of it")
    func better() throws {
        let data = try Pictures.data("jpeg/large-progressive.jpg")
        let (lengths, state) = previews(of: data, step: 256)
        #expect(state.isProgressive == true && state.completeScans == JPEGFile(data).scans.count)
        #expect((3...8).contains(lengths.count) && state.usableLength == data.count - 2, "\(lengths)")
        let whole = try JPEGDecoder().decode(data, DecodeOptions()).pixels
        var options = DecodeOptions()
        options.allowsPartial = true
        var errors = [Double.infinity]
        for length in lengths {
            let image = try JPEGDecoder().decode(data.prefix(length), options)
            errors.append(Difference(image.pixels, whole).mean)
            #expect(image.isOpaque && errors[errors.count - 1] < errors[errors.count - 2], "\(length) bytes")
        }
        #expect(errors.last == 0)
        // At an eighth of the size little is missing but the finest steps.
        options.target = TargetSize(PixelSize(width: 40, height: 30))
        let first = try JPEGDecoder().decode(
            data.prefix(try #require(previews(of: data, step: 64).lengths.first)), options)
        #expect(try Difference(first.pixels, JPEGDecoder().decode(data, options).pixels).mean < 5)
    }

    @Test("are the same however the bytes are split")
    func splits() throws {
        let data = try Pictures.data("jpeg/progressive.jpg")
        let (byOne, state) = previews(of: data, step: 1)
        var atOnce = ProgressiveJPEG()
        #expect(atOnce.preview(in: data) == byOne.last && atOnce.completeScans == state.completeScans)
        #expect(atOnce.preview(in: data) == nil)
    }

    @Test("there are none of baseline files, other formats and broken ones")
    func none() throws {
        for name in ["large", "scans", "arithmetic", "cmyk-profile"] {
            let (lengths, state) = previews(of: try Pictures.data("jpeg/\(name).jpg"), step: 100)
            #expect(lengths.isEmpty && state.isProgressive == false)
        }
        for data in [Data(repeating: 0xFF, count: 1000), Data("GIF89a, and so on".utf8)] {
            #expect(previews(of: data, step: 1).lengths.isEmpty)
        }
        // Files that lie.
        let data = try Pictures.data("jpeg/progressive.jpg")
        var random = SteadyNumbers(7)
        for _ in 0..<200 {
            var changed = data
            for _ in 0...Int(random.next() % 6) {
                changed[Int(random.next() % UInt64(data.count))] = UInt8(truncatingIfNeeded: random.next())
            }
            var state = ProgressiveJPEG()
            #expect(state.preview(in: changed) ?? 0 <= changed.count)
        }
    }
}
