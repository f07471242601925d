/// The identity for which a hook changes requests, such as an account, as text for a key.
struct HookIdentity: Sendable, Hashable {
    /// The digest that stands for the identity, which may be a secret.
    let digest: String
    /// Whether the caller declared the identity, so that another process recognizes it.
    let isDeclared: Bool

    /// Creates an identity.
    /// - Parameter name: any text; `nil` for an identity that no other hook has.
    init(_ name: String?) {
        digest = CacheKey.digest(
            name.map { "declared:\($0)" } ?? "\(UInt64.random(in: 0 ... .max)):\(UInt64.random(in: 0 ... .max))")
        isDeclared = name != nil
    }
}
