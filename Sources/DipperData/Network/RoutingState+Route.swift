extension RoutingState {
    /// An entry of any routing table.
    struct Route: Hashable, Sendable {
        enum Kind: Hashable, Sendable {
            case unicast
            /// The addresses are this machine's.
            case local
            /// Packets are refused: unreachable, blackhole, prohibit.
            case refusing
        }

        struct NextHop: Hashable, Sendable {
            /// The index of the link that packets leave by.
            let link: UInt32
            let gateway: IPAddress?
            /// The kernel says that the link, or its carrier, is not there.
            let isDead: Bool

            init(link: UInt32, gateway: IPAddress? = nil, isDead: Bool = false) {
                self.link = link
                self.gateway = gateway
                self.isDead = isDead
            }
        }

        let prefix: IPPrefix
        let kind: Kind
        /// Several where a route is spread over several links; none where the kernel does not tell.
        let nextHops: [NextHop]
        let table: UInt32
        /// Of two routes in one table with one prefix the lower counts.
        let metric: UInt32
        /// The address that packets are sent from.
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

        /// The kernel's own last entry, which refuses what no other route takes.
        var isLastResort: Bool { table == 0 || metric == .max }
    }
}
