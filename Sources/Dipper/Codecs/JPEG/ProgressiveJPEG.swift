import Foundation

/// Tells, while the bytes of a JPEG file arrive, when it is worthwhile to show what has come.
///
/// Each byte is looked at once. To show a preview, decode the prefix that is named with
/// ``DecodeOptions/allowsPartial``. Baseline files have none: they come row by row.
public struct ProgressiveJPEG: Sendable {
    /// Whether the file is progressive; `nil` until the header has come.
    public private(set) var isProgressive: Bool?
    /// Scans whose last byte has come.
    public private(set) var completeScans = 0
    /// Bytes up to the end of the last complete scan.
    public private(set) var usableLength = 0

    private var markers = JPEGMarkers()
    private var components = 0
    /// Components whose mean brightness or colour has come, and those of the scan that is arriving.
    private var shown: Set<UInt8> = []
    private var arriving: Set<UInt8> = []
    private var lastPreview = 0

    /// Before the first byte.
    public init() {}

    /// Looks at the bytes that are new.
    /// - Parameter data: the file from its first byte as far as it has come.
    /// - Returns: the length of a prefix, in bytes, that makes a better picture than what was named before: it has
    ///   a coarse whole with all colours, and at least a quarter more bytes than the last; `nil` if there is none.
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
        // Start of frame: 2 and 10 are progressive; 4, 8 and 12 are other segments.
        case 0xC2, 0xCA:
            isProgressive = true
            components = parameters.count > 5 ? Int(parameters[5]) : 0
        case 0xC0, 0xC1, 0xC3, 0xC5...0xC7, 0xC9, 0xCB, 0xCD...0xCF:
            isProgressive = false
        case 0xDA:
            arriving = []
            guard let count = parameters.first.map(Int.init), parameters.count > 1 + 2 * count,
                // A scan of the other coefficients shows nothing alone.
                parameters[1 + 2 * count] == 0
            else { return }
            arriving = Set((0..<count).map { parameters[1 + 2 * $0] })
        default: break
        }
    }
}
