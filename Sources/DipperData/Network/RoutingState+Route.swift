extension RoutingState {
    /// An entry of any routing table.
    struct Route: Hashable, Sendable {
        enum Kind: Hashable, Sendable {
            case unicast
            /// The addresses belong to this machine.
            case local
            /// The kernel refuses the packets: unreachable, blackhole, prohibit.
            case refusing
        }

        struct NextHop: Hashable, Sendable {
            /// The index of the link over which packets leave.
            let link: UInt32
            let gateway: IPAddress?
            /// Whether the kernel reports that the link is dead or has no carrier.
            let isDead: Bool

            init(link: UInt32, gateway: IPAddress? = nil, isDead: Bool = false) {
                self.link = link
                self.gateway = gateway
                self.isDead = isDead
            }
        }

        let prefix: IPPrefix
        let kind: Kind
        /// The next hops: several if the route is spread over links, none if the kernel does not report any.
        let nextHops: [NextHop]
        let table: UInt32
        /// The metric: of two routes with one prefix in one table, the lower one is used.
        let metric: UInt32
        /// The preferred source address of packets.
        let source: IPAddress?

        init(
            _ prefix: IPPrefix, kind: Kind = .unicast, nextHops: [NextHop] = [], table: UInt32 = mainTable,
            metric: UInt32 = 0, source: IPAddress? = nil
        ) {
            self.prefix = prefix
            self.kind = kind
            self.nextHops = nextHops
            self.table = table
            self.metric = metric
            self.source = source
        }

        static let mainTable: UInt32 = 254

        /// Whether the route is the kernel's own last entry, which refuses packets that no other route takes.
        var isLastResort: Bool { table == 0 || metric == .max }
    }
}
