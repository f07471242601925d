import Foundation

/// A picture in the memory tier.
final class KeptImage: Sendable {
    let image: Image
    /// The digest of the bytes that the picture was made from.
    let digest: UInt64
    /// Whether the caller has added the picture, so that processors are applied to it.
    let isAdded: Bool

    init(_ image: Image, digest: UInt64, isAdded: Bool = false) {
        self.image = image
        self.digest = digest
        self.isAdded = isAdded
    }
}

extension ObjectTier.Entry {
    /// The memory tier of an image cache contains no other type.
    @inline(__always)
    var kept: KeptImage { unsafeDowncast(object, to: KeptImage.self) }
}
