import Foundation
import Synchronization

/// A body made of the beginning that an earlier attempt received and the bytes that the current transfer adds.
///
/// Previews of a body that is still incomplete use it. Each call copies only the new bytes.
final class JoinedBody: Sendable {
    private let beginning: Data
    private let bytes = Mutex(ByteBuffer())

    init(_ beginning: Data) {
        self.beginning = beginning
    }

    /// Returns the beginning followed by the bytes of the transfer.
    /// - Parameter rest: all bytes that the transfer has received so far.
    /// - Returns: bytes that must not be changed in place; `nil` if there is no memory for them.
    func joined(_ rest: Data) -> Data? {
        bytes.withLock { bytes in
            if bytes.count == 0, !Self.append(beginning, to: &bytes) { return nil }
            return Self.append(rest.dropFirst(bytes.count - beginning.count), to: &bytes) ? bytes.snapshot() : nil
        }
    }

    private static func append(_ data: Data, to bytes: inout ByteBuffer) -> Bool {
        data.withUnsafeBytes { bytes.append($0) }
    }
}
