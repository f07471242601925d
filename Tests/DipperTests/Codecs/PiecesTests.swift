import TestSupport
import Testing

@Suite("What is read does not depend on the pieces in which the bytes come", .timeLimit(.minutes(2)))
struct PiecesTests {
    @Test(
        "The scans of a JPEG are found in pieces of any size",
        arguments: [
            "420", "progressive", "progressive-grey", "scans", "arithmetic-progressive", "restart-blocks", "cmyk",
        ],
        [1, 2, 7, 64, 1000])
    func scans(_ name: String, size: Int) throws {
        let data = try Pictures.data("jpeg/\(name).jpg")
        var (whole, inPieces) = (ProgressiveJPEG(), ProgressiveJPEG())
        _ = whole.preview(in: data)
        for end in stride(from: size, to: data.count + size, by: size) {
            let length = inPieces.preview(in: data.prefix(end))
            #expect(length == nil || length == inPieces.usableLength && inPieces.usableLength <= end)
        }
        #expect(inPieces.isProgressive == whole.isProgressive && inPieces.completeScans == whole.completeScans)
        #expect(inPieces.usableLength == whole.usableLength)
    }

    @Test("A part of a header says that it is incomplete, or what the whole says", arguments: ExpectedHeader.all)
    func headers(_ expected: ExpectedHeader) throws {
        let data = try expected.data()
        let whole = try ImageInfo(data)
        for length in Set((0..<min(600, data.count)).map(\.self) + stride(from: 0, to: data.count, by: 97)) {
            do throws(DipperError) {
                let info = try ImageInfo(data.prefix(length))
                #expect(info.format == whole.format && info.frameCount <= whole.frameCount)
                // The orientation may come later.
                let sides = info.size.map { [$0.width, $0.height].sorted() }
                #expect(sides == nil || sides == whole.size.map { [$0.width, $0.height].sorted() })
            } catch {
                let isTooShort = error == .unsupportedFormat && length < 256
                #expect(isTooShort || ImageInfo.isHeaderIncomplete(error), "\(length) bytes: \(error)")
            }
        }
    }

    @Test("Bytes inside of others are read as if they were alone", arguments: HostileImageTests.readable)
    func slices(_ expected: ExpectedHeader) throws {
        let data = try expected.data()
        let slice = (Data("before".utf8) + data + Data("after".utf8)).dropFirst(6).dropLast(5)
        #expect(try ImageInfo(slice) == ImageInfo(data))
        let whole = try CodecRegistry.standard.decode(data)
        #expect(try CodecRegistry.standard.decode(slice).pixels == whole.pixels)
        #expect(
            try CodecRegistry.standard.decoder(for: slice).allFrames(of: slice).count == whole.animation?.frameCount
                ?? 1)
    }
}
