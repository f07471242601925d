import Foundation

extension Data {
    /// Calls a closure with the bytes. Foundation's `withUnsafeBytes` loses the type of the closure's error.
    func withBytes<Value>(
        _ body: (UnsafeRawBufferPointer) throws(DipperError) -> Value
    ) throws(DipperError) -> Value {
        let result: Result<Value, DipperError> = withUnsafeBytes { bytes in
            Result { () throws(DipperError) in try body(bytes) }
        }
        return try result.get()
    }
}
