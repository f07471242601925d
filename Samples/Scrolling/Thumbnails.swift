import Dipper
import Foundation
import SampleServer

struct Thumbnails {
    /// The processor of the list's requests, which decodes photos to the size of a thumbnail.
    static let downsample = ImageProcessors.Resize(width: 200, height: 150, allowsUpscaling: false)

    private let assets: Assets
    /// The expected thumbnails by path of the photo, decoded without a cache.
    private var known: [String: Image] = [:]

    init(_ assets: Assets) {
        self.assets = assets
    }

    /// Returns a description of what is wrong with a thumbnail of the photo at a path; `nil` if nothing is wrong.
    mutating func defect(of image: Image, path: String) throws -> String? {
        let wanted = try known[path] ?? decode(path)
        known[path] = wanted
        guard image.size == wanted.size else { return "\(image.size) pixels instead of \(wanted.size)" }
        let difference = Self.difference(image, wanted)
        // A thumbnail that comes from disk has been compressed a second time.
        return difference < 4 ? nil : "a picture that is not the photo's (\(difference) of 255)"
    }

    private func decode(_ path: String) throws -> Image {
        guard let file = assets.files[path] else { throw Assets.Failure(description: "there is no \(path)") }
        return try Image(data: file, DecodeOptions(target: Self.downsample.target))
    }

    /// Returns the mean absolute difference of the colour components at points of a grid of 8 pixels, from 0 to 255.
    private static func difference(_ one: Image, _ other: Image) -> Double {
        var sum = 0
        var count = 0
        for y in stride(from: 0, to: one.height, by: 8) {
            for x in stride(from: 0, to: one.width, by: 8) {
                let (a, b) = (SIMD4<Int>(truncatingIfNeeded: one[x, y]), SIMD4<Int>(truncatingIfNeeded: other[x, y]))
                let both = a &- b
                sum += abs(both.x) + abs(both.y) + abs(both.z)
                count += 3
            }
        }
        return Double(sum) / Double(max(1, count))
    }
}
