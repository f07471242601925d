import Foundation

/// A picture in memory.
final class KeptImage: Sendable {
    let image: Image
    /// Of the bytes it was made of.
    let digest: UInt64

    init(_ image: Image, digest: UInt64) {
        self.image = image
        self.digest = digest
    }
}

extension ObjectTier.Entry {
    /// An image cache's tier holds nothing else.
    @inline(__always)
    var kept: KeptImage { unsafeDowncast(object, to: KeptImage.self) }
}
