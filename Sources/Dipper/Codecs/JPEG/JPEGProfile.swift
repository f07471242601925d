import Foundation

/// The colour profile of a JPEG file, stored in parts of at most 64 KiB (ICC.1:2022, B.4).
enum JPEGProfile {
    private static let name = Array("ICC_PROFILE\0".utf8)

    /// Returns the profile; `nil` if there is none, a part is missing, or it is too large.
    static func profile(in bytes: UnsafeRawBufferPointer) -> Data? {
        var parts: [UInt8: Range<Int>] = [:]
        var count: UInt8?
        var markers = JPEGMarkers()
        while let item = markers.next(in: bytes) {
            guard case .segment(let code, let range) = item, code != 0xDA else { break }
            guard code == 0xE2, range.count > name.count + 2,
                bytes[range].prefix(name.count).elementsEqual(name)
            else { continue }
            let start = range.lowerBound + name.count
            let (number, total) = (bytes[start], bytes[start + 1])
            guard number >= 1, number <= total, total == count ?? total, parts[number] == nil else { return nil }
            count = total
            parts[number] = start + 2..<range.upperBound
        }
        guard let count, parts.count == Int(count),
            parts.values.reduce(0, { $0 + $1.count }) <= ColorTransform.largestProfile
        else { return nil }
        var profile = Data()
        for number in 1...count {
            guard let part = parts[number] else { return nil }
            profile.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[part]))
        }
        return profile
    }
}
