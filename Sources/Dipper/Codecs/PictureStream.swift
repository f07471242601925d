import Foundation

/// A decoder that can begin before the last byte of a file has arrived.
protocol StreamingDecoder: ImageDecoder {
    /// Returns the decoding of a file that arrives; `nil` if more bytes must come first.
    /// - Parameter beginning: the first bytes of the file.
    /// - Throws: if the file is not to be decoded while it arrives, whatever ``decode(_:_:)`` makes of it.
    func stream(of beginning: Data, _ options: DecodeOptions) throws(DipperError) -> (any PictureStream)?
}

/// The decoding of a file that arrives. After an error the file is to be decoded as a whole.
protocol PictureStream: AnyObject {
    /// Decodes what can be decoded.
    /// - Parameter file: all bytes that have arrived.
    func advance(_ file: Data) throws(DipperError)

    /// Returns the picture that ``ImageDecoder/decode(_:_:)`` makes of the same file.
    func finish(_ file: Data) throws(DipperError) -> Image
}
