extension SIMD4<UInt8> {
    /// A pixel whose colours are no longer multiplied by alpha, rounded to nearest.
    var straight: SIMD4<UInt8> {
        if w == 255 || w == 0 { return self }
        let alpha = UInt32(w)
        func divided(_ color: UInt8) -> UInt8 { UInt8(Swift.min(255, (UInt32(color) * 255 + alpha / 2) / alpha)) }
        return SIMD4(divided(x), divided(y), divided(z), w)
    }
}
