import Foundation

/// A picture in memory.
final class KeptImage: Sendable {
    let image: Image
    /// Of the bytes it was made of.
    let digest: UInt64
    /// The caller has added it: it is the original of what processors make.
    let isAdded: Bool

    init(_ image: Image, digest: UInt64, isAdded: Bool = false) {
        self.image = image
        self.digest = digest
        self.isAdded = isAdded
    }
}

extension ObjectTier.Entry {
    /// An image cache's tier holds nothing else.
    @inline(__always)
    var kept: KeptImage { unsafeDowncast(object, to: KeptImage.self) }
}
