/// A rule that says which addresses may be connected to.
///
/// The transport applies the rule to each address before it opens a connection, so also after a redirect and when a
/// name changes its address between two requests. With a proxy the rule sees the proxy's address only: the proxy itself
/// must refuse the addresses behind it.
public struct AddressPolicy: Sendable {
    let allows: @Sendable (IPAddress) -> Bool
    var isAny = false

    /// A policy that allows every address.
    public static let any = AddressPolicy(allows: { _ in true }, isAny: true)

    /// A policy that allows only addresses that are open to everyone: no loopback, private or link-local ones.
    ///
    /// Use this policy in programs that fetch URLs from strangers, who might otherwise reach the network behind the
    /// firewall.
    ///
    /// ```swift
    /// var configuration = DataCache.Configuration()
    /// configuration.network.addressPolicy = .publicOnly
    /// configuration.network.maximumBodySize = 20 << 20
    /// ```
    public static let publicOnly = AddressPolicy { $0.isPublic }

    /// Returns a policy with a rule of the caller's own.
    ///
    /// ```swift
    /// var configuration = DataCache.Configuration()
    /// configuration.network.addressPolicy = .custom { $0.isPublic || $0 == IPAddress("10.0.0.7") }
    /// ```
    /// - Parameter allows: returns whether an address may be connected to. A thread of the transport calls this
    ///   closure, so it must not block.
    public static func custom(_ allows: @escaping @Sendable (IPAddress) -> Bool) -> AddressPolicy {
        AddressPolicy(allows: allows)
    }
}
