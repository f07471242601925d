import DipperData
import Foundation
import ProcessShims

/// An open file, closed when nobody holds it.
struct OwnedDescriptor: ~Copyable, Sendable {
    let number: Int32

    /// - Parameters:
    ///   - number: what the system answered, negative where it failed.
    ///   - name: tells in the error what was to be opened.
    init(_ number: Int32, for name: String) throws(DipperError) {
        guard number >= 0 else { throw Self.failure(name, errno) }
        self.number = number
    }

    private init(owning number: Int32) { self.number = number }

    deinit { close(number) }

    /// Closes it now, and not before.
    consuming func end() {}

    /// A pipe: what is written to its second end is read from its first.
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

    /// The same file, above the numbers that a program starts with.
    consuming func raised() throws(DipperError) -> OwnedDescriptor {
        guard number < 10 else { return self }
        return try OwnedDescriptor(fcntl(number, F_DUPFD_CLOEXEC, 10), for: "a descriptor")
    }

    static func failure(_ name: String, _ error: Int32) -> DipperError {
        .unreadable.with(detail: "'\(name)': \(String(cString: strerror(error)))")
    }
}
