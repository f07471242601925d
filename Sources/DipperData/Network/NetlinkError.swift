import Foundation

/// A failure to read the kernel's routing.
struct NetlinkError: Error, CustomStringConvertible {
    let operation: String
    /// A value of `errno`.
    let code: Int32

    init(_ operation: String, code: Int32 = errno) {
        self.operation = operation
        self.code = code
    }

    var description: String { "\(operation): \(String(cString: strerror(code)))" }
}
