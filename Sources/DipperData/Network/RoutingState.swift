/// The kernel's links, addresses and routes.
///
/// A value without a clock, a lock or a file: what it says about a host depends on its contents alone. Two states are
/// equal if their links, addresses and routes are equal.
struct RoutingState: Sendable {
    let links: [UInt32: Link]
    let addresses: Set<Address>
    let routes: Set<Route>
    /// The routes, with the longest prefix first.
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
