import CXXHash

extension Image {
    /// A digest of the size and the pixels, which is equal in every run and on every machine.
    var digest: UInt64 {
        var digest = UInt64(truncatingIfNeeded: width) << 32 ^ UInt64(truncatingIfNeeded: height)
        guard let base = storage.bytes.baseAddress else { return digest }
        for y in 0..<height { digest = dipper_xxh3_seeded(base + y * rowStride, width * 4, digest) }
        return digest
    }
}
