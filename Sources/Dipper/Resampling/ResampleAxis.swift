/// The weights that make the pixels of one direction from those of the source.
///
/// A reduction by four or more takes two steps: the pixels are first added up in boxes, then the Lanczos filter weighs
/// the boxes as if each were a pixel. Each lobe of the filter spans at least three boxes, or two for reductions between
/// four and six, where a box of two pixels halves the work. The boxes soften the picture, and the weights sharpen it
/// again: a box of k pixels has the variance (k² - 1) / 12, so half of that times the second difference of the filter
/// is subtracted.
struct ResampleAxis {
    let source: Int
    let target: Int
    /// The number of pixels added up before weighing. The last box may have fewer.
    let box: Int
    /// The number of boxes.
    let boxes: Int
    /// The number of the first box for each pixel of the target.
    private(set) var starts: [Int32]
    /// The number of boxes for each pixel of the target.
    private(set) var counts: [Int32]
    /// The number of weights in ``weights`` for each pixel of the target.
    let taps: Int
    /// The weights by which the sums of boxes are multiplied.
    private(set) var weights: [Float]

    /// The largest number of pixels in a box: sums of 256 bytes fit into 16 bits.
    static let longestBox = 256

    init(from source: Int, to target: Int) {
        self.source = source
        self.target = target
        box = Self.box(from: source, to: target)
        boxes = (source + box - 1) / box
        taps = Self.taps(from: source, to: target)
        starts = []
        counts = []
        starts.reserveCapacity(target)
        counts.reserveCapacity(target)
        weights = [Float](repeating: 0, count: target * taps)
        for pixel in 0..<target { weigh(pixel) }
    }

    static func box(from source: Int, to target: Int) -> Int {
        if source / target < 4 { return 1 }
        return max(2, min(longestBox, source / target / 3))
    }

    static func taps(from source: Int, to target: Int) -> Int {
        if source == target { return 1 }
        let radius = LanczosKernel.support * max(1, Double(source) / Double(target))
        return Int(2 * radius / Double(box(from: source, to: target))) + 5
    }

    /// Returns the size of the tables in bytes.
    static func byteCount(from source: Int, to target: Int) -> Int {
        target * (taps(from: source, to: target) * 4 + 8)
    }

    private mutating func weigh(_ pixel: Int) {
        guard source != target else {
            starts.append(Int32(pixel))
            counts.append(1)
            weights[pixel] = 1
            return
        }
        let scale = Double(source) / Double(target)
        let width = max(1, scale)
        let middle = (Double(pixel) + 0.5) * scale
        let radius = LanczosKernel.support * width
        // The sharpening reaches one box further.
        let reach = radius + (box > 1 ? Double(box) : 0)
        let first = max(0, Int((middle - reach).rounded(.down))) / box
        let last = min(source - 1, Int(middle + reach)) / box
        let sharpening = (1 - 1 / Double(box * box)) / 24
        let step = Double(box) / width
        var found = [Double](repeating: 0, count: last - first + 1)
        var total = 0.0
        for index in first...last {
            let length = min(box, source - index * box)
            let place = (Double(index * box) + Double(length) / 2 - middle) / width
            var weight = LanczosKernel.weight(at: place)
            if box > 1 {
                let beside = LanczosKernel.weight(at: place - step) + LanczosKernel.weight(at: place + step)
                weight += sharpening * (2 * weight - beside)
            }
            found[index - first] = weight
            total += weight * Double(length)
        }
        // Weights of zero at both ends are left out, so that nothing is read for them.
        let low = found.firstIndex { abs($0) > 1e-9 } ?? 0
        let high = found.lastIndex { abs($0) > 1e-9 } ?? low
        starts.append(Int32(first + low))
        counts.append(Int32(high - low + 1))
        for index in low...high { weights[pixel * taps + index - low] = Float(found[index] / total) }
    }
}
