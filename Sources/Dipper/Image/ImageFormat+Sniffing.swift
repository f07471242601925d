import Foundation

extension ImageFormat {
    /// The format of bytes that begin like this, whatever name or type they came with; `nil` if it is not known.
    public init?(sniffing start: Data) {
        return nil
    }
}
