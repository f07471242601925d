import Foundation

extension ImageInfo {
    /// Reads the header; nothing is decoded. The first bytes are enough for all but the number of frames.
    /// - Throws: ``DipperError/unsupportedFormat``, ``DipperError/undecodable``.
    public init(_ data: Data) throws(DipperError) {
        throw .unsupportedFormat
    }
}
