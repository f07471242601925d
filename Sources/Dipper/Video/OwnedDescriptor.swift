import DipperData
import Foundation
import ProcessShims

/// A descriptor of an open file, which is closed when the value is destroyed.
struct OwnedDescriptor: ~Copyable, Sendable {
    let number: Int32

    /// Takes ownership of the result of a system call.
    /// - Parameters:
    ///   - number: the result of the call, negative if it failed.
    ///   - name: names the file in the error.
    init(_ number: Int32, for name: String) throws(DipperError) {
        guard number >= 0 else { throw Self.failure(name, errno) }
        self.number = number
    }

    private init(owning number: Int32) { self.number = number }

    deinit { close(number) }

    /// Closes the descriptor at this point, and not before.
    consuming func end() {}

    /// A pipe: bytes written to `writing` are read from `reading`.
    struct Pipe: ~Copyable {
        let reading: OwnedDescriptor
        let writing: OwnedDescriptor

        init() throws(DipperError) {
            var ends: [Int32] = [-1, -1]
            guard dipper_pipe(&ends) == 0 else { throw OwnedDescriptor.failure("a pipe", errno) }
            reading = OwnedDescriptor(owning: ends[0])
            writing = OwnedDescriptor(owning: ends[1])
        }
    }

    /// Returns a descriptor of the file whose number is above those that a program starts with.
    consuming func raised() throws(DipperError) -> OwnedDescriptor {
        guard number < 10 else { return self }
        return try OwnedDescriptor(fcntl(number, F_DUPFD_CLOEXEC, 10), for: "a descriptor")
    }

    static func failure(_ name: String, _ error: Int32) -> DipperError {
        .unreadable.with(detail: "'\(name)': \(String(cString: strerror(error)))")
    }
}
