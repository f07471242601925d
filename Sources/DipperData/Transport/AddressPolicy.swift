/// Which addresses may be connected to. Asked after each name has been looked up, for every connection, so also
/// after a redirect and when a name changes its address between two requests.
///
/// With a proxy the address is the proxy's: what lies behind it is the proxy's to refuse.
public struct AddressPolicy: Sendable {
    let allows: @Sendable (IPAddress) -> Bool
    var isAny = false

    /// Every address.
    public static let any = AddressPolicy(allows: { _ in true }, isAny: true)

    /// Only addresses that are open to everyone: no loopback, private or link-local ones. For programs that fetch
    /// what strangers name, who might otherwise look into the network behind the firewall.
    public static let publicOnly = AddressPolicy { $0.isPublic }

    /// A rule of one's own. Called on a thread of the transport's; must not block.
    public static func custom(_ allows: @escaping @Sendable (IPAddress) -> Bool) -> AddressPolicy {
        AddressPolicy(allows: allows)
    }
}
