/// What the kernel knows of ways to hosts: links, addresses and routes.
///
/// A value without a clock, a lock or a file: what it says of a host depends on what is in it alone. Two are equal
/// if they say the same of every host.
struct RoutingState: Sendable {
    let links: [UInt32: Link]
    let addresses: Set<Address>
    let routes: Set<Route>
    /// Routes, those with the longest prefix first.
    let ranked: [Route]

    init(links: [Link] = [], addresses: Set<Address> = [], routes: Set<Route> = []) {
        self.links = Dictionary(links.map { ($0.index, $0) }, uniquingKeysWith: { $1 })
        self.addresses = addresses
        self.routes = routes
        ranked = routes.sorted { $0.prefix.length > $1.prefix.length }
    }
}

extension RoutingState: Equatable {
    static func == (a: Self, b: Self) -> Bool {
        a.links == b.links && a.addresses == b.addresses && a.routes == b.routes
    }
}
