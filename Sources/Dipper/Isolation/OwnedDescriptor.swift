import Foundation
import ProcessShims

struct OwnedDescriptor: ~Copyable, Sendable {
    /// Above those that a program starts with, which could be overwritten before they are copied.
    let number: Int32

    /// Takes ownership of the result of a system call, which is negative if the call failed. The name is for the error.
    init(_ number: Int32, for name: String) throws(DipperError) {
        var kept = number
        if (0..<10).contains(number) {
            kept = fcntl(number, F_DUPFD_CLOEXEC, 10)
            close(number)
        }
        guard kept >= 0 else { throw Self.failure(name, errno) }
        self.number = kept
    }

    deinit { close(number) }

    /// Starts a program in the root folder whose descriptors, from 0 on, are the given ones. Returns 0, or the error.
    static func spawn(
        _ id: inout pid_t, _ program: String, _ arguments: [String], _ environment: [String], _ files: [Int32]
    ) -> Int32 {
        let texts = [arguments, environment].map { texts in texts.map { strdup($0) } + [nil] }
        defer { for text in texts.joined() { free(text) } }
        return dipper_spawn(&id, program, texts[0], texts[1], "/", files, Int32(files.count))
    }

    /// Bytes written to `writing` are read from `reading`. Also two connected sockets, of which each is both.
    struct Pipe: ~Copyable {
        let reading: OwnedDescriptor
        let writing: OwnedDescriptor

        init(
            _ make: (UnsafeMutablePointer<Int32>?) -> Int32 = dipper_pipe, _ name: String = "a pipe"
        ) throws(DipperError) {
            var ends: [Int32] = [-1, -1]
            guard make(&ends) == 0 else { throw OwnedDescriptor.failure(name, errno) }
            let reading: OwnedDescriptor
            do throws(DipperError) {
                reading = try OwnedDescriptor(ends[0], for: name)
            } catch {
                close(ends[1])
                throw error
            }
            writing = try OwnedDescriptor(ends[1], for: name)
            self.reading = reading
        }
    }

    static func failure(_ name: String, _ error: Int32) -> DipperError {
        .unreadable.with(detail: "'\(name)': \(String(cString: strerror(error)))")
    }
}

extension StringProtocol {
    /// The text of another program, with question marks in place of characters that are not visible.
    var visible: String {
        unicodeScalars.map { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: "?"
            default: String(scalar)
            }
        }.joined()
    }
}
