import Dipper
import Foundation
import TestSupport
import Testing

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
        options.limits.bytes = 1 << 20
        options.preloadsFrames = true
        var small = options
        small.target = TargetSize(PixelSize(width: 5, height: 5))
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
        var options = DecodeOptions()
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
