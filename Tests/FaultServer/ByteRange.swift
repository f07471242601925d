/// The part of a body that a Range header selects (RFC 9110, section 14).
enum ByteRange: Equatable, Sendable {
    /// The whole body: the server ignores the header.
    case whole
    case part(Range<Int>)
    case unsatisfiable

    /// Parses a Range header.
    ///
    /// - Parameters:
    ///   - field: the value of the header: `bytes=a-b`, `bytes=a-` or `bytes=-n`.
    ///   - size: the size of the body in bytes.
    init(_ field: String, size: Int) {
        self = .whole
        guard field.lowercased().hasPrefix("bytes=") else { return }
        let ends = field.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
            .map { $0.filter { $0 != " " } }
        // A server may answer a malformed header, or one with several ranges, with the whole body.
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

    /// Returns the number, or `Int.max` if it does not fit into an `Int`; `nil` if there are no digits.
    private static func number(_ digits: String) -> Int? {
        digits.isEmpty ? nil : Int(digits) ?? Int.max
    }
}
