import Foundation

/// A parser that decides, while a JPEG file arrives, when a better preview can be displayed.
///
/// It reads each byte once. To display a preview, decode the prefix that ``preview(in:)`` returns with
/// ``DecodeOptions/allowsPartial``. The parser returns no previews of baseline files: they arrive row by row, so any
/// prefix shows the rows received so far.
///
/// ```swift
/// var (parser, received, options) = (ProgressiveJPEG(), Data(), DecodeOptions())
/// options.allowsPartial = true
/// for chunk in chunks {               // the parts of the file as they arrive
///     received += chunk
///     guard let length = parser.preview(in: received) else { continue }
///     view.show(try JPEGDecoder().decode(received.prefix(length), options))
/// }
/// ```
public struct ProgressiveJPEG: Sendable {
    /// Whether the file is progressive; `nil` until its header has arrived.
    public private(set) var isProgressive: Bool?
    /// The number of scans that have arrived completely.
    public private(set) var completeScans = 0
    /// The number of bytes up to the end of the last complete scan.
    public private(set) var usableLength = 0

    private var markers = JPEGMarkers()
    private var components = 0
    /// The components whose mean values have arrived, and those of the scan that is arriving.
    private var shown: Set<UInt8> = []
    private var arriving: Set<UInt8> = []
    private var lastPreview = 0

    /// Creates a parser for a file from its first byte.
    public init() {}

    /// Parses the new bytes and returns the length of a prefix that makes a better preview.
    /// - Parameter data: the file from its first byte as far as it has arrived.
    /// - Returns: the length in bytes; `nil` if there is no better preview. A preview shows the whole picture coarsely,
    ///   in all its colours, and is made of at least a quarter more bytes than the one before.
    public mutating func preview(in data: Data) -> Int? {
        if isProgressive == false { return nil }
        data.withUnsafeBytes { advance(in: $0) }
        guard isProgressive == true, components > 0, shown.count >= components,
            usableLength > lastPreview + lastPreview / 4
        else { return nil }
        lastPreview = usableLength
        return usableLength
    }

    private mutating func advance(in bytes: UnsafeRawBufferPointer) {
        while isProgressive != false, let item = markers.next(in: bytes) {
            switch item {
            case .segment(let code, let range): read(code, bytes[range])
            case .scanEnd(let position):
                completeScans += 1
                usableLength = position
                shown.formUnion(arriving)
            case .end: return
            }
        }
    }

    private mutating func read(_ code: UInt8, _ parameters: Slice<UnsafeRawBufferPointer>) {
        let parameters = Array(parameters)
        switch code {
        // Start of frame 2 and 10 are progressive. C4, C8 and CC are not frames.
        case 0xC2, 0xCA:
            isProgressive = true
            components = parameters.count > 5 ? Int(parameters[5]) : 0
        case 0xC0, 0xC1, 0xC3, 0xC5...0xC7, 0xC9, 0xCB, 0xCD...0xCF:
            isProgressive = false
        case 0xDA:
            arriving = []
            guard let count = parameters.first.map(Int.init), parameters.count > 1 + 2 * count,
                // A scan without the mean values displays nothing alone.
                parameters[1 + 2 * count] == 0
            else { return }
            arriving = Set((0..<count).map { parameters[1 + 2 * $0] })
        default: break
        }
    }
}
