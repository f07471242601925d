import Dipper
import Foundation
import Synchronization
import Testing

extension ImageDecoder {
    /// All frames of a file, decoded one after the other; one for a picture that does not move.
    func allFrames(of data: Data, _ options: DecodeOptions = .init()) throws -> [AnimationFrame] {
        guard let frames = try frames(of: data, options) else {
            return [AnimationFrame(image: try decode(data, options), duration: .zero)]
        }
        return try frames.rest()
    }

    /// Decodes hostile bytes in every way there is. Errors of ours are what is expected; anything else is not.
    func survives(_ data: Data) {
        var options = DecodeOptions()
        options.limits.pixels = 1 << 16
        options.limits.bytes = 1 << 20
        options.allowsPartial = true
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

    /// The file cut off after every byte, and with every byte changed.
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

extension FrameDecoder {
    /// The frames that are still to come.
    func rest() throws(DipperError) -> [AnimationFrame] {
        var all = [AnimationFrame]()
        while let frame = try next() { all.append(frame) }
        return all
    }
}

extension DecodeOptions {
    /// Cancelled when it is asked for the so-manieth time.
    static func cancelled(after count: Int) -> DecodeOptions {
        let left = Asked(count)
        var options = DecodeOptions()
        options.isCancelled = { left.isUp() }
        return options
    }
}

private final class Asked: Sendable {
    private let left: Mutex<Int>

    init(_ count: Int) { left = Mutex(count) }

    func isUp() -> Bool {
        left.withLock { left in
            left -= 1
            return left < 0
        }
    }
}

/// An error that a call is expected to end with.
func expectError(_ error: DipperError, _ body: () throws -> Void, _ location: SourceLocation = #_sourceLocation) {
    #expect(throws: error, sourceLocation: location) { try body() }
}
