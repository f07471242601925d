import TestSupport
import Testing

/// The sheets of pictures in the guides: a photo and what the code above the sheet makes of it, or a photo that is
/// decoded in part.
@Suite("The guides' pictures", .timeLimit(.minutes(2)))
struct GuidePictureTests {
    struct Sheet: CustomTestStringConvertible {
        let name: String
        let images: @Sendable () throws -> [Image]

        var testDescription: String { name }

        func file(_ ground: Ground) -> String { "\(name)\(ground.rawValue).jpg" }
    }

    /// The colours of the page around a sheet. The raw value is the suffix by which DocC finds the file.
    enum Ground: String, CaseIterable {
        case light = ""
        case dark = "~dark"

        var sheet: ContactSheet {
            var sheet = ContactSheet(cell: PixelSize(width: 152, height: 114), columns: 4)
            if self == .dark {
                sheet.background = .black
                sheet.cellColor = Color(hex: 0x282828)
            }
            return sheet
        }
    }

    static let sheets: [Sheet] = [
        sheet("processors-sizes") { _ in ProcessorsGuide.sizes() },
        sheet("processors-content-modes", width: 72) { _ in ProcessorsGuide.contentModes() },
        sheet("processors-shapes") { _ in ProcessorsGuide.shapes() },
        sheet("processors-turns", width: 108) { _ in ProcessorsGuide.turns() },
        sheet("processors-filters") { _ in ProcessorsGuide.filters() },
        sheet("processors-effects") { _ in ProcessorsGuide.effects() },
        sheet("processors-blends") { photo in
            let logo = ImageProcessors.Resize(width: 64, height: 48) |> .circle |> .border(.white, width: 2, radius: 24)
            return ProcessorsGuide.blends(try logo.process(photo, ProcessingContext()))
        },
        Sheet(name: "previews") {
            try ["large-progressive", "large"].flatMap { file -> [Image] in
                try [8, 4, 2, 1].map { try decoded(file, width: 152, part: $0) }
            }
        },
    ]

    private static func sheet(
        _ name: String, width: Int = 152, _ processors: @escaping @Sendable (Image) throws -> [any ImageProcessor]
    ) -> Sheet {
        Sheet(name: name) {
            let photo = try decoded("large", width: width, part: 1)
            return try [photo] + processors(photo).map { try $0.process(photo, ProcessingContext()) }
        }
    }

    /// Returns what the first bytes of a file show.
    /// - Parameter part: 2 for the first half of the bytes, 1 for all.
    private static func decoded(_ file: String, width: Int, part: Int) throws -> Image {
        let bytes = try Pictures.data("jpeg/\(file).jpg")
        var options = DecodeOptions(target: TargetSize(width: width, height: width))
        options.allowsPartial = part > 1
        return try CodecRegistry.standard.decode(bytes.prefix(bytes.count / part), options)
    }

    // MARK: Files

    private static let package = (0..<4).reduce(URL(fileURLWithPath: #filePath)) { url, _ in
        url.deletingLastPathComponent()
    }
    private static let catalogue = package.appendingPathComponent("Sources/Dipper/Dipper.docc")
    private static let folder = catalogue.appendingPathComponent("Resources")

    static let draws = ProcessInfo.processInfo.environment["DIPPER_PICTURES"] == "1"
    private static let remedy =
        "If the change is meant, draw the pictures anew: DIPPER_PICTURES=1 make t T=Dipper F=GuidePictureTests"

    // Where versions of libjpeg-turbo round differently, a coefficient of JPEG may move by a step, which is large.
    @Test("show what the library makes of the photo", arguments: sheets, Ground.allCases)
    func pictures(_ sheet: Sheet, _ ground: Ground) throws {
        let (name, layout) = (sheet.file(ground), ground.sheet)
        let images = try sheet.images()
        try #require(images.count == 8)
        let bytes = try JPEGEncoder().encode(layout.compose(images), EncodeOptions(quality: 0.75))
        let file = Self.folder.appendingPathComponent(name)
        if Self.draws {
            try FileManager.default.createDirectory(at: Self.folder, withIntermediateDirectories: true)
            try bytes.write(to: file)
        }
        let stored = try #require(FileManager.default.contents(atPath: file.path), "\(name) is missing. \(Self.remedy)")
        let (old, new) = (try JPEGDecoder().decode(stored, .init()), try JPEGDecoder().decode(bytes, .init()))
        try #require(old.size == new.size, "\(name) has another size. \(Self.remedy)")
        for number in images.indices {
            let cell = ImageProcessors.Crop(
                to: PixelRect(
                    x: layout.gap + number % 4 * (layout.cell.width + layout.gap),
                    y: layout.gap + number / 4 * (layout.cell.height + layout.gap),
                    width: layout.cell.width, height: layout.cell.height))
            let difference = Difference(
                try cell.process(old, .init()).pixels, try cell.process(new, .init()).pixels)
            #expect(
                difference.mean <= 1.5 && difference.largest <= 32,
                "Picture \(number + 1) of \(name) differs: \(difference). \(Self.remedy)")
        }
    }

    @Test("are in a guide, described for those who do not see them, and small", .enabled(if: !GuidePictureTests.draws))
    func embedding() throws {
        let pages = try ["Processors", "Decoding"].map {
            try String(contentsOf: Self.catalogue.appendingPathComponent("\($0).md"), encoding: .utf8)
        }.joined()
        for sheet in Self.sheets {
            let image = #"!\[[^\]]{80,}\]\("# + sheet.name + #"\)"#
            #expect(pages.range(of: image, options: .regularExpression) != nil, "\(sheet.name)")
        }
        let names = Self.sheets.flatMap { sheet in Ground.allCases.map(sheet.file) }
        // The other figures are drawn by hand.
        let files = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
            .filter { $0.hasSuffix(".jpg") }
        #expect(files.sorted() == names.sorted(), "\(Self.remedy)")
        let sizes = try files.map { try Data(contentsOf: Self.folder.appendingPathComponent($0)).count }
        #expect(sizes.reduce(0, +) < 600_000)
    }
}
