import CPixels
import TestSupport
import Testing

@Suite(
    "Pictures get the size that is wanted, by Lanczos with three lobes on premultiplied colours",
    .timeLimit(.minutes(2)))
struct ResamplingTests {
    private func stretched(_ picture: TestPicture, _ width: Int, _ height: Int) throws -> Image {
        try ImageProcessors.Resize(width: width, height: height, .stretch, allowsUpscaling: true)
            .process(picture.image(), .init())
    }

    @Test(
        "Fit keeps proportions inside the target, fill covers it, stretch takes it; only what is allowed to grows",
        arguments: [
            (400, 300, TargetSize.Mode.fit, false, 4000, 2000, 400, 200),
            (400, 300, .fill, false, 4000, 2000, 600, 300), (400, 300, .stretch, false, 4000, 2000, 400, 300),
            (400, 300, .fit, false, 40, 20, 40, 20), (400, 300, .fit, true, 40, 20, 400, 200),
            (400, 300, .stretch, false, 4000, 20, 400, 20), (400, 300, .fit, false, 60_000, 2, 400, 1),
            (0, -5, .fit, false, 3, 2, 1, 1), (0, -5, .fill, false, 3, 2, 1, 1), (0, -5, .stretch, false, 3, 2, 1, 1),
        ])
    func targets(
        width: Int, height: Int, mode: TargetSize.Mode, grows: Bool, ofWidth: Int, ofHeight: Int, newWidth: Int,
        newHeight: Int
    ) {
        let target = TargetSize(width: width, height: height, mode, allowsUpscaling: grows)
        let size = target.size(for: PixelSize(width: ofWidth, height: ofHeight))
        #expect(size == PixelSize(width: newWidth, height: newHeight))
        for (wide, picture) in [(Int.max, PixelSize(width: 3, height: 2)), (1, PixelSize(width: .max, height: 1))] {
            let target = TargetSize(width: wide, height: .max, mode, allowsUpscaling: true)
            let size = target.size(for: picture)
            #expect(size.width > 0 && size.height > 0)
        }
    }

    @Test(
        "Up to a factor of four, and upwards, it is the exact filter but for rounding; beyond that, boxes stand for it",
        arguments: [
            (40, 30, 20, 15), (41, 31, 40, 30), (37, 29, 13, 11), (64, 48, 17, 13), (9, 7, 23, 31), (1, 1, 5, 3),
            (2, 50, 2, 49), (50, 3, 49, 3), (30, 30, 60, 10), (3, 4, 1, 2), (100, 1, 33, 1), (80, 60, 20, 15),
            (161, 121, 16, 12), (200, 150, 7, 5), (300, 11, 1, 1), (90, 400, 90, 9), (1000, 3, 3, 3),
            (129, 131, 30, 31),
        ], [true, false])
    func filter(_ sizes: (width: Int, height: Int, newWidth: Int, newHeight: Int), opaque: Bool) throws {
        let picture = TestPicture.waves(sizes.width, sizes.height, opaque: opaque)
        let image = try stretched(picture, sizes.newWidth, sizes.newHeight)
        let difference = Difference(image.pixels, ReferenceFilter.resample(picture, to: image.size))
        let factor = max(Double(sizes.width) / Double(sizes.newWidth), Double(sizes.height) / Double(sizes.newHeight))
        // Noise from pixel to pixel, as the alpha here, is what boxes are worst at, those of two pixels most.
        let (largest, mean) =
            factor < 4 ? (1, 0.02) : opaque ? (5, 0.6) : factor >= 6 ? (11, 1.7) : (24, 3.6)
        #expect(difference.largest <= largest && difference.mean < mean, "\(difference)")
        #expect(factor >= 4 || image.isOpaque == opaque)
    }

    @Test("Loops over pairs of pixels and rows give what plain arithmetic gives, whatever the size", arguments: 1...21)
    func pairs(width: Int) {
        var random = SeededRandom(UInt64(width))
        func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) } }
        let stride = width * 4 + 4
        let rows = bytes(stride * 7)
        func mean(_ x: Int, _ box: Int, _ color: Int, _ height: Int) -> Int {
            var sum = 0
            for y in 0..<height {
                for x in x..<min(x + box, width) { sum += Int(rows[y * stride + x * 4 + color]) }
            }
            let area = box * height
            return area <= 257 ? (sum * (128 * 65536 / area) + 32768) >> 16 : (sum * 128 + area / 2) / area
        }
        for (box, height) in [(1, 1), (2, 2), (2, 3), (3, 2), (3, 7), (5, 1), (20, 7), (60, 5)] {
            let boxes = (width + box - 1) / box
            // The two rows, the lower one first, and what is behind them.
            var made = [Int16](repeating: -1, count: (boxes + 1) / 2 * 16 + 8)
            made.withUnsafeMutableBufferPointer { made in
                guard let base = made.baseAddress else { return }
                for lower in [8, 0] {
                    if box == 1, height == 1 {
                        pixels_pair_bytes(base + lower, rows, width)
                    } else if box == 2, height == 2 {
                        pixels_pair_squares(base + lower, rows, stride, width)
                    } else {
                        var sums = [UInt16](repeating: 7, count: width * 4)
                        pixels_add_rows(&sums, rows, stride, 1, width * 4, true)
                        rows.withUnsafeBufferPointer { rows in
                            guard let second = rows.baseAddress else { return }
                            pixels_add_rows(&sums, second + stride, stride, height - 1, width * 4, false)
                        }
                        pixels_pair_boxes(base + lower, sums, width, box, box * height)
                    }
                }
            }
            for lower in [0, 8] {
                for index in 0..<boxes {
                    for color in 0..<4 {
                        let value = Int(made[index / 2 * 16 + lower + color * 2 + index % 2])
                        #expect(value == mean(index * box, box, color, height), "\(box) × \(height) at \(index)")
                    }
                }
            }
            #expect(made.suffix(8).allSatisfy { $0 == -1 })
        }
        // Two rows of eleven pairs of pixels, with weights that together may exceed one.
        func numbers(_ count: Int, _ most: Int) -> [Int16] {
            (0..<count).map { _ in Int16(Int(random.next() % UInt64(most))) }
        }
        let taps = 8
        let (pixels, weights) = (numbers(11 * 16, 32641), numbers(width * taps, 4500).map { $0 - 500 })
        let starts = (0..<width).map { Int32($0 % 8) }
        let counts = (0..<width).map { Int32($0 % 4 + 1) }
        var weighed = [Int16](repeating: -1, count: width * 8 + 1)
        pixels_weigh_row(&weighed, width, pixels, starts, counts, weights, taps)
        for x in 0..<width {
            for (number, row) in [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1), (2, 1), (3, 1)] {
                let sum = (0..<2 * Int(counts[x])).reduce(1 << 14) { sum, tap in
                    let pair = (Int(starts[x]) + tap / 2) * 16 + row * 8
                    return sum + Int(weights[x * taps + tap]) * Int(pixels[pair + number * 2 + tap % 2])
                }
                #expect(Int(weighed[x * 8 + number * 2 + row]) == sum >> 15)
            }
        }
        #expect(weighed.last == -1)
        let ring = numbers(5 * width * 8, 22000).map { $0 - 1000 }
        for (first, count) in [(0, 1), (0, 5), (3, 2), (3, 4), (4, 5)] {
            var result = [UInt8](repeating: 9, count: width * 4 + 1)
            pixels_weigh_rows(&result, width, ring, 5, first, weights, min(count, weights.count / 2))
            for x in 0..<width {
                let values = (0..<4).map { color in
                    (0..<min(count, weights.count / 2)).reduce(1 << 19) { sum, pair in
                        let place = (first + pair) % 5 * width * 8 + x * 8 + color * 2
                        return sum + Int(weights[pair * 2]) * Int(ring[place])
                            + Int(weights[pair * 2 + 1]) * Int(ring[place + 1])
                    } >> 20
                }
                let top = min(255, values[3])
                let expected = values.map { UInt8(max(0, min($0, top))) }
                #expect(Array(result[x * 4..<x * 4 + 4]) == expected, "\(first), \(count), \(x)")
            }
            #expect(result.last == 9)
        }
    }

    @Test(
        "A plain colour stays as it is, however strong the reduction",
        arguments: [411, 600, 749, 1_200, 2_000, 4_008])
    func plain(size: Int) throws {
        for target in [1, 2, 8] {
            let dot = try ImageProcessors.Resize(width: target, height: target, .stretch)
                .process(Image.filled(with: .white, size, size), ProcessingContext())
            #expect(dot.pixels.allSatisfy { $0 == 255 }, "to \(target)")
        }
    }

    @Test("Very long and very strong reductions are bounded in memory", arguments: [(1 << 20, 1), (1, 1 << 20)])
    func long(width: Int, height: Int) throws {
        let image = Image.filled(with: .white, width, height)
        var context = ProcessingContext()
        context.limits.bytes = 40 << 20
        let dot = try ImageProcessors.Resize(width: 1, height: 1, .stretch).process(image, context)
        #expect(dot.pixels == [255, 255, 255, 255])
    }
}
