import CXXHash
import Foundation

extension Data {
    /// A digest by which bytes are told apart. It is the same in every process.
    var digest: UInt64 { withUnsafeBytes { dipper_xxh3_seeded($0.baseAddress, $0.count, 0) } }
}
