import CodecShims
import Foundation

/// The conversion of one file's colours to sRGB.
struct JPEGColors {
    /// The transform to apply after the rows are scaled to their final size; `nil` if there is none.
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

    /// Converts CMYK pixels to RGBA in place. Pixels of other colours are RGBA already.
    func convert(_ memory: UnsafeMutableRawPointer, pixels: Int) {
        guard isCMYK else { return }
        if let cmyk {
            cmyk.apply(toCMYK: memory, pixels: pixels)
        } else {
            CMYKRows.convert(memory, pixels: pixels, isInverted: isInverted)
        }
    }
}
