/// Conversion of CMYK to RGB without a profile.
enum CMYKRows {
    /// Converts pixels from CMYK to opaque RGBA in place: each colour is the light that its ink lets through,
    /// multiplied by the light that black lets through.
    /// - Parameter isInverted: whether the bytes are 255 minus the ink.
    static func convert(_ row: UnsafeMutableRawPointer, pixels: Int, isInverted: Bool) {
        let row = row.assumingMemoryBound(to: UInt8.self)
        let flip: UInt8 = isInverted ? 0 : 255
        for start in stride(from: 0, to: pixels * 4, by: 4) {
            let light = UInt32(row[start + 3] ^ flip)
            for index in start..<start + 3 { row[index] = UInt8((UInt32(row[index] ^ flip) * light + 127) / 255) }
            row[start + 3] = 255
        }
    }
}
