import Foundation

/// A parser that decides, while a JPEG file arrives, when a better preview can be displayed.
///
/// To display a preview, decode the prefix that ``preview(in:)`` returns with ``DecodeOptions/allowsPartial``. Baseline
/// files have no previews: they arrive row by row, so any prefix shows the rows received so far.
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

    /// Parses the new bytes of a file, which `data` holds from its first byte, and returns the length of a prefix, in
    /// bytes, that makes a better preview; `nil` if there is none. A preview shows the whole picture coarsely, in all
    /// its colours, and is made of at least a quarter more bytes than the one before.
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
        if let frame = JPEGFrame(code, parameters) {
            isProgressive = frame.isProgressive
            components = frame.components.count
        } else if code == 0xDA {
            arriving = []
            // A scan without the mean values displays nothing alone.
            if let scan = JPEGScan(parameters), scan.firstCoefficient == 0 { arriving = Set(scan.components) }
        }
    }
}
