import Foundation
import Testing

@testable import Dipper

@Suite("The colour profile of a JPEG file is put together from its parts", .timeLimit(.minutes(5)))
struct JPEGProfileTests {
    private func part(_ number: UInt8, of count: UInt8, _ content: some Collection<UInt8>) -> Data {
        Data("ICC_PROFILE\0".utf8) + [number, count] + content
    }

    /// The parts, written in this order.
    private func profile(of parts: [Data]) throws -> Data? {
        var file = JPEGFile(try Pictures.data("jpeg/420.jpg"))
        for part in parts.reversed() { file.insert(application: 2, part) }
        return file.data.withUnsafeBytes { JPEGProfile.profile(in: $0) }
    }

    @Test("in whatever order they come")
    func order() throws {
        let parts = [part(1, of: 3, [1, 2]), part(2, of: 3, [3]), part(3, of: 3, [4, 5])]
        #expect(try profile(of: parts) == Data([1, 2, 3, 4, 5]))
        #expect(try profile(of: parts.reversed()) == Data([1, 2, 3, 4, 5]))
        #expect(try profile(of: [Data("MPF\0 and more of it".utf8)] + parts) == Data([1, 2, 3, 4, 5]))
    }

    @Test("parts that are missing, twice there, or numbered wrongly make none")
    func wrong() throws {
        #expect(try profile(of: []) == nil)
        #expect(try profile(of: [part(1, of: 2, [1])]) == nil)
        #expect(try profile(of: [part(1, of: 1, [1]), part(1, of: 1, [2])]) == nil)
        #expect(try profile(of: [part(0, of: 1, [1])]) == nil)
        #expect(try profile(of: [part(2, of: 1, [1])]) == nil)
        #expect(try profile(of: [part(1, of: 2, [1]), part(2, of: 3, [2])]) == nil)
        #expect(try profile(of: [part(1, of: 1, [])]) == nil)
    }

    @Test("a picture with a broken profile is shown as sRGB")
    func broken() throws {
        var file = JPEGFile(try Pictures.data("jpeg/420.jpg"))
        file.insert(application: 2, part(1, of: 1, [UInt8](repeating: 9, count: 500)))
        let image = try JPEGDecoder().decode(file.data, DecodeOptions())
        #expect(try Difference(image, try Golden("jpeg/420.rgba")).largest == 0)
    }

    @Test("a profile above the limit is passed over")
    func large() throws {
        let content = [UInt8](repeating: 1, count: 65_000)
        func profile(count: UInt8) throws -> Data? {
            var data = Data([0xFF, 0xD8])
            for number in 1...count {
                let part = part(number, of: count, content)
                data += [0xFF, 0xE2, UInt8((part.count + 2) >> 8), UInt8((part.count + 2) & 255)] + part
            }
            return data.withUnsafeBytes { JPEGProfile.profile(in: $0) }
        }
        #expect(try profile(count: 100)?.count == 6_500_000)
        #expect(try profile(count: 130) == nil)
    }
}
