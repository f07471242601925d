import Dipper
import Foundation
import SampleServer

/// The expected look of photographs in a cell, decoded without a cache.
struct Photos {
    /// The number of columns of patches that a cell is divided into for the comparison.
    static let columns = 8
    static let rows = 6

    private let assets: Assets
    private var known: [String: [SIMD3<Double>]] = [:]

    init() throws {
        assets = try Assets(
            URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .appendingPathComponent("../../../Scrolling/Assets").standardizedFileURL)
    }

    /// Returns the mean colour of each patch of a photograph, cropped like in a cell; `nil` for a URI that is not a
    /// photograph's.
    mutating func patches(of uri: String) throws -> [SIMD3<Double>]? {
        let path = String(uri.prefix { $0 != "?" })
        if let patches = known[path] { return patches }
        guard path.hasPrefix("/photos/"), let file = assets.files[path] else { return nil }
        let target = TargetSize(width: 320, height: 240, .fill)
        let image = try Image(data: file, DecodeOptions(target: target))
        let patches = Self.patches(
            of: image, x: Double(image.width - 320) / 2, y: Double(image.height - 240) / 2, width: 320, height: 240)
        known[path] = patches
        return patches
    }

    /// Returns the mean colour of each patch of a part of a picture.
    static func patches(
        of image: Image, x: Double, y: Double, width: Double, height: Double
    ) -> [SIMD3<Double>] {
        (0..<rows * columns).map { number in
            let (column, row) = (Double(number % columns), Double(number / columns))
            // The edges of a patch blend with the next one, so they are left out.
            let left = Int(x + width * (column + 0.15) / Double(columns))
            let right = Int(x + width * (column + 0.85) / Double(columns))
            let top = Int(y + height * (row + 0.15) / Double(rows))
            let bottom = Int(y + height * (row + 0.85) / Double(rows))
            var sum = SIMD3<Double>()
            for py in top..<max(bottom, top + 1) {
                for px in left..<max(right, left + 1) {
                    let pixel = image[min(max(px, 0), image.width - 1), min(max(py, 0), image.height - 1)]
                    sum += SIMD3(Double(pixel.x), Double(pixel.y), Double(pixel.z))
                }
            }
            return sum / Double(max(1, right - left) * max(1, bottom - top))
        }
    }

    /// Returns the mean absolute difference of the colour components over all patches, from 0 to 255.
    static func difference(_ one: [SIMD3<Double>], _ other: [SIMD3<Double>]) -> Double {
        let sum = zip(one, other).reduce(0) { sum, pair in
            let difference = pair.0 - pair.1
            return sum + abs(difference.x) + abs(difference.y) + abs(difference.z)
        }
        return sum / Double(max(1, one.count) * 3)
    }
}
