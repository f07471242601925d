/// For whom a hook makes what comes back, as text for a key.
struct HookIdentity: Sendable, Hashable {
    /// Stands for the identity, which may be a secret.
    let digest: String
    /// Another process knows it again.
    let isDeclared: Bool

    /// - Parameter name: any text; `nil` for an identity that nobody else has.
    init(_ name: String?) {
        digest = CacheKey.digest(
            name.map { "declared:\($0)" } ?? "\(UInt64.random(in: 0 ... .max)):\(UInt64.random(in: 0 ... .max))")
        isDeclared = name != nil
    }
}
