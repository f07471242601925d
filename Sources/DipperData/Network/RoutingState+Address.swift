extension RoutingState {
    /// An address of this machine.
    struct Address: Hashable, Sendable {
        let ip: IPAddress
        let prefixLength: Int
        /// The index of its link.
        let link: UInt32
        /// How far it can be used; see `rtnetlink(7)`: 0 everywhere, 253 on the link, 254 on this machine.
        let scope: UInt8
        /// It may turn out to be another machine's (RFC 4862, 5.4), and must not be used yet.
        let isTentative: Bool

        init(_ ip: IPAddress, prefixLength: Int, link: UInt32, scope: UInt8 = 0, isTentative: Bool = false) {
            self.ip = ip
            self.prefixLength = prefixLength
            self.link = link
            self.scope = scope
            self.isTentative = isTentative
        }
    }
}
