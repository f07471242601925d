/// What a Range header makes of a body (RFC 9110, 14).
enum ByteRange: Equatable, Sendable {
    /// No range that can be honoured, so the header counts as absent.
    case whole
    case part(Range<Int>)
    case unsatisfiable

    /// - Parameters:
    ///   - field: the value of the header: `bytes=a-b`, `bytes=a-` or `bytes=-n`.
    ///   - size: the bytes of the body.
    init(_ field: String, size: Int) {
        self = .whole
        guard field.lowercased().hasPrefix("bytes=") else { return }
        let ends = field.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
            .map { $0.filter { $0 != " " } }
        // More than one range may be answered with the whole; so may what is malformed.
        guard ends.count == 2, ends.allSatisfy({ $0.allSatisfy { $0.isASCII && $0.isNumber } })
        else { return }
        switch (Self.number(ends[0]), Self.number(ends[1])) {
        case (nil, nil):
            return
        case (nil, let suffix?):
            if suffix == 0 {
                self = .unsatisfiable
            } else if size > 0 {
                self = .part(max(0, size - suffix)..<size)
            }
        case (let first?, let last):
            if let last, last < first { return }
            self = first < size ? .part(first..<(min(last ?? size, size - 1) + 1)) : .unsatisfiable
        }
    }

    /// A number too large for `Int` is as good as the largest one.
    private static func number(_ digits: String) -> Int? {
        digits.isEmpty ? nil : Int(digits) ?? Int.max
    }
}
