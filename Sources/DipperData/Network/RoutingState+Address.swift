extension RoutingState {
    /// An address of this machine.
    struct Address: Hashable, Sendable {
        let ip: IPAddress
        let prefixLength: Int
        /// The index of the address's link.
        let link: UInt32
        /// The scope in which the address is valid; see `rtnetlink(7)`: 0 everywhere, 253 on the link, 254 on this
        /// machine.
        let scope: UInt8
        /// Whether the address must not be used: another machine may have it, or is known to have it (RFC 4862, 5.4).
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
