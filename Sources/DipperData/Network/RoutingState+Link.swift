extension RoutingState {
    /// A network interface.
    struct Link: Hashable, Sendable {
        struct Flags: OptionSet, Hashable, Sendable {
            let rawValue: UInt8
            /// The link is switched on.
            static let up = Flags(rawValue: 1)
            /// The link has a carrier.
            static let lowerUp = Flags(rawValue: 2)
            static let loopback = Flags(rawValue: 4)
            /// The link has a carrier but may not be used yet, for example before 802.1X has finished.
            static let dormant = Flags(rawValue: 8)
        }

        let index: UInt32
        let name: String
        let flags: Flags
        /// The kind of a virtual link, such as `bridge`, `veth`, `tun`, `wireguard` or `dummy`; `nil` for a device.
        let kind: String?
        /// The index of the link that this one is a port of.
        let master: UInt32?

        init(_ index: UInt32, _ name: String, _ flags: Flags, kind: String? = nil, master: UInt32? = nil) {
            self.index = index
            self.name = name
            self.flags = flags
            self.kind = kind
            self.master = master
        }

        /// Whether packets can leave over the link.
        var isUp: Bool { flags.isSuperset(of: [.up, .lowerUp]) && !flags.contains(.dormant) }
        var isLoopback: Bool { flags.contains(.loopback) }
    }
}
