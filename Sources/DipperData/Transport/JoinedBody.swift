import Foundation
import Synchronization

/// The beginning of a body that an earlier attempt has left, with what one transfer adds to it: for those who look at the
/// bytes before all are there. Only what is new is copied.
final class JoinedBody: Sendable {
    private let beginning: Data
    private let bytes = Mutex(ByteBuffer())

    init(_ beginning: Data) {
        self.beginning = beginning
    }

    /// - Parameter rest: all that the transfer has brought so far.
    /// - Returns: the whole, which must not be changed in place; `nil` if there is no memory for it.
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
