import DipperTesting
import Foundation
import Testing

@testable import Dipper

@Suite("A contact sheet", .timeLimit(.minutes(2)))
struct ContactSheetTests {
    private func sheet(_ width: Int, _ height: Int, columns: Int? = nil, gap: Int = 2) -> ContactSheet {
        var sheet = ContactSheet(cell: PixelSize(width: width, height: height), columns: columns)
        sheet.gap = gap
        return sheet
    }

    @Test("has its pictures from left to right and from top to bottom, each in the middle of its cell")
    func order() throws {
        let colors = [Color(hex: 0xfa0000), Color(hex: 0x00fa00), Color(hex: 0x0000fa)]
        let pictures: [Image] = [
            .filled(with: colors[0], 4, 2), .filled(with: colors[1], 2, 4), .filled(with: colors[2], 40, 20),
        ]
        let image = try sheet(8, 6, columns: 2).compose(pictures)
        #expect(image.size == PixelSize(width: 2 * 10 + 2, height: 2 * 8 + 2))
        #expect(image.isOpaque)
        func found(_ color: Color) -> [PixelSize] {
            (0..<image.height).flatMap { y in
                (0..<image.width).filter { image[$0, y] == color.premultiplied }.map { PixelSize(width: $0, height: y) }
            }
        }
        // Cells begin at 2 and 12 from the left, and at 2 and 10 from the top.
        func area(_ x: Range<Int>, _ y: Range<Int>) -> [PixelSize] {
            y.flatMap { y in x.map { PixelSize(width: $0, height: y) } }
        }
        #expect(found(colors[0]) == area(4..<8, 4..<6))
        #expect(found(colors[1]) == area(15..<17, 3..<7))
        #expect(found(colors[2]) == area(2..<10, 11..<15), "made smaller, proportions kept")
        #expect(image[0, 0] == [255, 255, 255, 255])
        #expect(image[2, 2] == [240, 240, 240, 255])
    }

    @Test("shows its cells through what is transparent")
    func transparent() throws {
        var sheet = sheet(4, 4, columns: 1, gap: 0)
        sheet.cellColor = Color(hex: 0x643200)
        let translucent = Image.filled(with: Color(hex: 0x787878, alpha: 128 / 255.0), 2, 2)
        let image = try sheet.compose([translucent])
        #expect(image[0, 0] == [100, 50, 0, 255])
        // 60 + 100 × 127 / 255, and so on.
        #expect(image[1, 1] == [110, 85, 60, 255])
    }

    @Test("marks what is not there, inside its cell")
    func mark() throws {
        for (width, height) in [(9, 9), (1, 1), (2, 7), (30, 12)] {
            let sheet = sheet(width, height, columns: 1, gap: 3)
            let image = try sheet.compose([nil])
            let mark = sheet.markColor.premultiplied
            var marked = 0
            for y in 0..<image.height {
                for x in 0..<image.width where image[x, y] == mark {
                    marked += 1
                    #expect((3..<3 + width).contains(x) && (3..<3 + height).contains(y))
                }
            }
            #expect(marked > 0)
        }
    }

    @Test("is about square if nothing is said, and has no empty columns")
    func grid() {
        #expect(sheet(10, 10).grid(for: 16) == (4, 4))
        #expect(sheet(20, 10).grid(for: 16) == (3, 6))
        #expect(sheet(10, 10).grid(for: 0) == (1, 1))
        #expect(sheet(10, 10, columns: 5).grid(for: 11) == (5, 3))
        #expect(sheet(10, 10, columns: 5).grid(for: 2) == (2, 1))
        #expect(sheet(10, 10, columns: -1).grid(for: 2) == (1, 2))
    }

    @Test("keeps to limits, and to sizes that can be")
    func limits() throws {
        let picture = Image.filled(with: .black, 1, 1)
        for (size, wanted) in [
            (sheet(100_000, 100_000), DipperError.imageTooLarge), (sheet(.max, 10), .imageTooLarge),
            (sheet(.max / 2, .max / 2, columns: 2), .imageTooLarge), (sheet(0, 10), .processingFailed),
            (sheet(10, 10, gap: -1), .processingFailed), (sheet(10, 10, gap: .max), .imageTooLarge),
        ] {
            #expect(throws: wanted) { try size.compose([picture, picture]) }
        }
        #expect(throws: DipperError.cancelled) {
            try sheet(8, 8).compose([picture], ProcessingContext(isCancelled: { true }))
        }
    }
}
