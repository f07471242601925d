import Foundation

/// An estimate of the memory that making a picture takes.
enum DecodeCost {
    /// Bytes of pixels, by what the header says: the result, and what the codec holds whole on the way. Bytes whose header
    /// says nothing count themselves.
    /// - Parameter options: what becomes of the picture; `nil` for one that is decoded as it is.
    static func bytes(of data: Data, _ options: ResolvedOptions?) -> Int {
        guard let info = try? ImageInfo(data), let size = info.size else { return data.count }
        let chain = options?.chain
        let target = chain?.decodeTarget.map { $0.size(for: size) } ?? size
        let whole = bytes(size)
        let held =
            switch info.format {
            // Rows are taken in as they come; several scans or passes are put together first.
            case .jpeg, .png: info.isProgressive ? whole : 0
            // Such pictures are a canvas, then a copy of it in the size that is wanted.
            default: whole
            }
        // A processor makes a second picture of the first.
        let result = bytes(target)
        let made = chain?.processors.isEmpty == false ? sum(result, result) : result
        return sum(held, made)
    }

    private static func bytes(_ size: PixelSize) -> Int {
        let (pixels, overflows) = size.width.multipliedReportingOverflow(by: size.height)
        return overflows || pixels > Int.max / 4 ? .max : pixels * 4
    }

    private static func sum(_ a: Int, _ b: Int) -> Int {
        let (sum, overflows) = a.addingReportingOverflow(b)
        return overflows ? .max : sum
    }
}
