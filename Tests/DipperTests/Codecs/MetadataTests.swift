import Foundation
import TestSupport
import Testing

@Suite("Exif and XMP data are read, and are not written", .timeLimit(.minutes(1))) struct MetadataTests {
    private func metadata(_ name: String) throws -> ImageMetadata {
        try ImageInfo(Pictures.data("metadata/\(name)")).metadata
    }

    private func date(_ zone: Int?, second: Int = 56) -> DateComponents {
        DateComponents(
            calendar: Calendar(identifier: .gregorian), timeZone: zone.flatMap { TimeZone(secondsFromGMT: $0) },
            year: 2026,
            month: 5, day: 17, hour: 12, minute: 34, second: second)
    }

    @Test("Exif in every format", arguments: ["exif.jpg", "exif.png", "exif.webp", "both.jpg"])
    func exif(_ name: String) throws {
        let metadata = try metadata(name)
        #expect(metadata.orientation == .right)
        #expect(metadata.camera == "Dipper Optics Ladle 3")
        #expect(metadata.date == date(-12_600))
        let place = try #require(metadata.place)
        #expect(abs(place.latitude + 22.918_892) < 1e-5 && abs(place.longitude + 43.208_333) < 1e-5)
        #expect(place.altitude == -7.5)
    }

    @Test("TIFF has the fields itself; without the time of the picture that of its last change counts")
    func tiff() throws {
        let metadata = try metadata("exif.tiff")
        #expect(metadata.orientation == .right && metadata.camera == "Dipper Optics Ladle 3" && metadata.place == nil)
        #expect(metadata.date?.year == 2027 && metadata.date?.second == 5 && metadata.date?.timeZone == nil)
    }

    @Test(
        "XMP in every format; its orientation does not turn the picture", arguments: ["xmp.jpg", "xmp.png", "xmp.webp"])
    func xmp(_ name: String) throws {
        let metadata = try metadata(name)
        #expect(metadata.orientation == .left)
        #expect(metadata.camera == "Ladle 7")
        #expect(metadata.date == date(0))
        let place = try #require(metadata.place)
        #expect(abs(place.latitude - 48.208_333) < 1e-5 && abs(place.longitude - 16.375) < 1e-5)
        #expect(place.altitude == nil)
        #expect(try ImageInfo(Pictures.data("metadata/\(name)")).orientation == .up)
    }

    @Test("Files without them state nothing, and broken ones no more than is sound")
    func broken() throws {
        #expect(try ImageInfo(Pictures.data("png/rgb8.png")).metadata == ImageMetadata())
        let data = try Pictures.data("metadata/both.jpg")
        for index in data.indices {
            for mask: UInt8 in [0x01, 0x80, 0xFF] {
                var damaged = data
                damaged[index] ^= mask
                guard let place = (try? ImageInfo(damaged))?.metadata.place else { continue }
                #expect(abs(place.latitude) <= 90 && abs(place.longitude) <= 180)
            }
            _ = try? ImageInfo(data.prefix(index))
        }
        // Spaces stand for a time that is not known.
        let entry = HeaderBytes.directory([(306, 2, 20, 26)]) + Array("    :  :     :  :  \0".utf8)
        let file = HeaderBytes.jpeg(8, 6, [HeaderBytes.segment(0xE1, Array("Exif\0\0".utf8) + entry)])
        #expect(try ImageInfo(Data(file)).metadata == ImageMetadata())
    }

    @Test("Nothing of them is written", arguments: [ImageFormat.jpeg, .png, .webp])
    func written(_ format: ImageFormat) throws {
        guard CodecRegistry.standard.writable.contains(format) else { return }
        let image = try CodecRegistry.standard.decode(Pictures.data("metadata/both.jpg"))
        #expect(image.size == PixelSize(width: 6, height: 8))
        #expect(try ImageInfo(image.encoded(as: format)).metadata == ImageMetadata())
    }
}
