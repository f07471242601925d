import TestSupport
import Testing

/// The test pictures and the pixels that Pillow decodes from them.
enum Pictures {
    static let folder = Bundle.module.resourceURL.unsafelyUnwrapped.appendingPathComponent("Pictures")

    /// - Parameter path: the path in the folder, such as `jpeg/photo.jpg`.
    static func data(_ path: String) throws -> Data {
        try Data(contentsOf: folder.appendingPathComponent(path))
    }

    static func isReadable(_ path: String) -> Bool {
        CodecRegistry.standard.readable.contains { path.hasSuffix("." + $0.fileExtension) }
    }
}

/// A decoded picture to compare with, from a file `NAME.rgba`: width and height as 32-bit little-endian numbers, then
/// rows of red, green, blue and alpha, not premultiplied, upright, in sRGB.
struct Golden {
    let size: PixelSize
    let pixels: [UInt8]

    init(_ path: String) throws {
        let data = try Pictures.data(path)
        func number(at offset: Int) -> Int {
            data.withUnsafeBytes {
                Int(UInt32(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
            }
        }
        size = PixelSize(width: number(at: 0), height: number(at: 4))
        pixels = Array(data.dropFirst(8))
        try #require(pixels.count == size.width * size.height * 4)
    }

    var isOpaque: Bool { stride(from: 3, to: pixels.count, by: 4).allSatisfy { pixels[$0] == 255 } }

    var premultiplied: [UInt8] {
        var result = pixels
        for start in stride(from: 0, to: result.count, by: 4) {
            let alpha = Int(result[start + 3])
            for index in start..<start + 3 { result[index] = UInt8((Int(result[index]) * alpha + 127) / 255) }
        }
        return result
    }
}

/// The difference between the colour components of two pictures, in steps of 1/255.
struct Difference: CustomStringConvertible {
    let largest: Int
    let mean: Double

    init(_ image: Image, _ golden: Golden) throws {
        try #require(image.size == golden.size)
        self.init(image.pixels, golden.premultiplied)
    }

    init(_ a: [UInt8], _ b: [UInt8]) {
        precondition(a.count == b.count)
        var largest = 0
        var sum = 0
        for index in a.indices {
            let difference = abs(Int(a[index]) - Int(b[index]))
            largest = max(largest, difference)
            sum += difference
        }
        self.largest = largest
        mean = Double(sum) / Double(max(1, a.count))
    }

    var description: String { "largest \(largest), mean \(mean)" }
}

/// The box of the tests. Dipper has a type of the same name, for the boxes of ISO media files.
typealias Box = TestSupport.Box

extension ImageDecoder {
    /// Returns all frames of a file, decoded one after the other; a single frame for a still picture.
    func allFrames(of data: Data) throws -> [AnimationFrame] {
        guard let frames = try frames(of: data, .init()) else {
            return [AnimationFrame(image: try decode(data, .init()), duration: .zero)]
        }
        return try frames.rest()
    }

    /// Decodes hostile bytes in every way, and checks that a failure is one of the expected errors.
    func survives(_ data: Data) {
        var options = DecodeOptions.partial
        options.limits.pixels = 1 << 16
        options.limits.bytes = 8 << 20
        options.preloadsFrames = true
        var small = options
        small.target = TargetSize(width: 5, height: 5)
        small.allowsPartial = false
        for options in [options, small] {
            do throws(DipperError) {
                let image = try decode(data, options)
                #expect(!image.pixels.isEmpty)
            } catch {
                #expect([.undecodable, .imageTooLarge, .unsupportedFormat].contains(error))
            }
        }
        _ = try? frames(of: data, small)?.rest()
    }

    /// Decodes the file truncated at every byte, and with every byte changed.
    func survivesDamage(to data: Data) {
        for count in 0..<data.count { survives(data.prefix(count)) }
        for index in data.indices {
            for mask: UInt8 in [0xFF, 0x01, 0x80] {
                var damaged = data
                damaged[index] ^= mask
                survives(damaged)
            }
        }
    }
}

extension DecodeOptions {
    static let partial = DecodeOptions.with { $0.allowsPartial = true }

    static func with(_ change: (inout DecodeOptions) -> Void) -> DecodeOptions {
        var options = DecodeOptions()
        change(&options)
        return options
    }

    static func cancelled(after count: Int) -> DecodeOptions {
        let calls = Box(0)
        var options = DecodeOptions.with { $0.isolation = .off }
        options.isCancelled = {
            calls.update { calls in
                calls += 1
                return calls > count
            }
        }
        return options
    }
}

extension EncodeOptions {
    static let lossless = {
        var options = EncodeOptions()
        options.isLossless = true
        return options
    }()
}

extension CodecRegistry {
    func failure(_ data: Data, _ options: DecodeOptions = .init()) -> DipperError? {
        do throws(DipperError) {
            _ = try decode(data, options).pixels
            return nil
        } catch {
            return error
        }
    }
}
