extension RoutingState {
    /// A network interface.
    struct Link: Hashable, Sendable {
        struct Flags: OptionSet, Hashable, Sendable {
            let rawValue: UInt8
            /// Switched on.
            static let up = Flags(rawValue: 1)
            /// There is a carrier.
            static let lowerUp = Flags(rawValue: 2)
            static let loopback = Flags(rawValue: 4)
            /// There is a carrier, but it may not be used yet: 802.1X has not ended, say.
            static let dormant = Flags(rawValue: 8)
        }

        let index: UInt32
        let name: String
        let flags: Flags
        /// What made it: `bridge`, `veth`, `tun`, `wireguard`, `dummy`; `nil` for a device.
        let kind: String?
        /// The link that this one is a port of.
        let master: UInt32?

        init(_ index: UInt32, _ name: String, _ flags: Flags, kind: String? = nil, master: UInt32? = nil) {
            self.index = index
            self.name = name
            self.flags = flags
            self.kind = kind
            self.master = master
        }

        /// Bytes can go out.
        var isUp: Bool { flags.isSuperset(of: [.up, .lowerUp]) && !flags.contains(.dormant) }
        var isLoopback: Bool { flags.contains(.loopback) }
    }
}
