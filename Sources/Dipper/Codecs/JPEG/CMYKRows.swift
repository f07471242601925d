/// Makes RGB of CMYK where no profile says how.
enum CMYKRows {
    /// Each colour is what its ink and black let through, multiplied: opaque RGBA in place of CMYK.
    /// - Parameter isInverted: stored is what is let through, not the ink.
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
