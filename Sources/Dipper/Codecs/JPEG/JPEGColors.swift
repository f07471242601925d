import CodecShims
import Foundation

/// How the colours of one file become sRGB.
struct JPEGColors {
    /// What is left to do when the rows have their final size.
    let afterwards: ColorTransform?
    private let cmyk: ColorTransform?
    private let isCMYK: Bool
    private let isInverted: Bool

    init(_ header: dipper_jpeg_header, _ bytes: UnsafeRawBufferPointer) {
        isCMYK = header.colors == DIPPER_JPEG_CMYK
        isInverted = header.is_adobe
        let source: ColorTransform.Source =
            isCMYK ? .cmyk(isInverted: isInverted) : header.colors == DIPPER_JPEG_GREY ? .grey : .rgb
        let transform = JPEGProfile.profile(in: bytes).flatMap { ColorTransform.shared(icc: $0, for: source) }
        cmyk = isCMYK ? transform : nil
        afterwards = isCMYK ? nil : transform
    }

    /// Makes RGBA of CMYK, in place; other colours are RGBA already.
    func convert(_ memory: UnsafeMutableRawPointer, pixels: Int) {
        guard isCMYK else { return }
        if let cmyk {
            cmyk.apply(toCMYK: memory, pixels: pixels)
        } else {
            CMYKRows.convert(memory, pixels: pixels, isInverted: isInverted)
        }
    }
}
