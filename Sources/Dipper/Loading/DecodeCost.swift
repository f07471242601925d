import Foundation

/// An estimate of the memory that making a picture takes.
enum DecodeCost {
    /// Returns the memory that the pixels take, in bytes, according to the header: those of the result, and those that
    /// the codec holds as a whole meanwhile. If the header does not tell the size, this is the number of bytes in the
    /// file.
    /// - Parameter options: the options for making the picture; `nil` for a picture that is decoded as it is.
    static func bytes(of data: Data, _ options: ResolvedOptions?) -> Int {
        guard let info = try? ImageInfo(data), let size = info.size else { return data.count }
        let chain = options?.chain
        let target = chain?.decodeTarget.map { $0.size(for: size) } ?? size
        let whole = bytes(size)
        let held =
            switch info.format {
            // Rows are resampled as they are decoded; a progressive or interlaced picture is assembled first.
            case .jpeg, .png: info.isProgressive ? whole : 0
            // Other formats are decoded into a canvas, which is then copied in the requested size.
            default: whole
            }
        // A processor makes a second picture from the decoded one.
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
