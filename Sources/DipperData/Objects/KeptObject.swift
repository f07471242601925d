/// An object in the memory tier.
package final class KeptObject<Product: Sendable>: Sendable {
    package let product: Product
    /// The digest of the bytes that the object was made from; 0 if there were none.
    package let digest: UInt64
    /// Whether the program has added the object.
    package let isAdded: Bool
    /// The number of the keeping, by which later ones are told from earlier ones.
    let number: UInt64

    init(_ product: Product, digest: UInt64, isAdded: Bool = false, number: UInt64) {
        self.product = product
        self.digest = digest
        self.isAdded = isAdded
        self.number = number
    }
}

extension ObjectTier.Entry {
    /// The object. The memory of an ``ObjectCache`` contains no other type.
    @inline(__always)
    package func kept<Product: Sendable>(_ type: Product.Type = Product.self) -> KeptObject<Product> {
        unsafeDowncast(object, to: KeptObject<Product>.self)
    }
}
