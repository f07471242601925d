import Dipper
import Foundation
import SampleServer

/// An animated GIF made of a photograph: each frame is a window that moves over the photograph.
enum Film {
    static let path = "/film.gif"
    static let motif = "/photos/mountain-trail.jpg"
    private static let size = PixelSize(width: 288, height: 216)
    private static let frameCount = 24

    static func make(of photograph: Data) throws -> Data {
        let target = TargetSize(width: size.width * 13 / 10, height: size.height * 13 / 10, .fill)
        let whole = try Image(data: photograph, DecodeOptions(target: target))
        let frames = (0..<frameCount).compactMap { number -> AnimationFrame? in
            let angle = 2 * Double.pi * Double(number) / Double(frameCount)
            let x = Int(Double(whole.width - size.width) * (1 - cos(angle)) / 2)
            let y = Int(Double(whole.height - size.height) * (1 + sin(angle)) / 2)
            return window(of: whole, x: x, y: y).map { AnimationFrame(image: $0, duration: .milliseconds(90)) }
        }
        return try CodecRegistry.standard.encoder(for: .gif).encode(frames, loopCount: 0, EncodeOptions())
    }

    private static func window(of whole: Image, x: Int, y: Int) -> Image? {
        whole.withPixels { pixels in
            var bytes: [UInt8] = []
            bytes.reserveCapacity(size.width * size.height * 4)
            for row in y..<y + size.height {
                let start = row * whole.rowStride + x * 4
                bytes += pixels[start..<start + size.width * 4]
            }
            return Image(size: size, premultiplied: bytes)
        }
    }
}
