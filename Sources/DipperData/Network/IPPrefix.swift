/// A prefix: the addresses whose first bits are equal.
struct IPPrefix: Hashable, Sendable {
    let address: IPAddress
    /// The number of bits that are compared.
    let length: Int

    init(_ address: IPAddress, length: Int) {
        self.address = address
        self.length = min(max(length, 0), address.family.width)
    }

    /// Returns the prefix of all addresses of a family.
    static func all(_ family: IPAddress.Family) -> IPPrefix { IPPrefix(.zero(family), length: 0) }

    var family: IPAddress.Family { address.family }

    func contains(_ other: IPAddress) -> Bool {
        guard other.family == family else { return false }
        if length <= 64 {
            // A shift by all 64 bits gives zero.
            return (address.high ^ other.high) >> (64 - UInt64(length)) == 0
        }
        return address.high == other.high && (address.low ^ other.low) >> (128 - UInt64(length)) == 0
    }
}
