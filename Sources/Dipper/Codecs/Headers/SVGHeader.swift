import Foundation

extension ImageInfo {
    mutating func readSVG(_ file: ByteReader) throws(DipperError) -> PixelSize {
        (bitDepth, hasAlpha) = (8, true)
        return try SVGHeader(file).size
    }
}

/// The size of an SVG (SVG 2, section 8.2), in pixels of CSS, from the attributes of its outermost element.
struct SVGHeader {
    let width: Double
    let height: Double

    /// Throws `DipperError.undecodable` if the element is not complete, or its size is no number of pixels.
    init(_ file: ByteReader) throws(DipperError) {
        let attributes = try Self.attributes(of: file)
        let box = attributes["viewBox"]?.split { ", \t\r\n".utf8.contains($0) }.compactMap {
            Double(String(decoding: $0, as: UTF8.self))
        }
        var view: (width: Double, height: Double)?
        if let box, box.count == 4, box[2] > 0, box[3] > 0 { view = (box[2], box[3]) }
        switch (attributes["width"].flatMap(Self.length), attributes["height"].flatMap(Self.length), view) {
        case (let width?, let height?, _): (self.width, self.height) = (width, height)
        case (let width?, nil, let view?): (self.width, self.height) = (width, width * view.height / view.width)
        case (nil, let height?, let view?): (self.width, self.height) = (height * view.width / view.height, height)
        case (nil, nil, let view?): (width, height) = view
        // The size of an element without a size in CSS 2.2, section 10.3.2.
        case (let width, let height, nil): (self.width, self.height) = (width ?? 300, height ?? 150)
        }
        guard width > 0, height > 0, max(width, height) < 0x1p31 else { throw ByteReader.broken }
    }

    var size: PixelSize {
        PixelSize(width: Int(width.rounded(.up)), height: Int(height.rounded(.up)))
    }

    /// Some programs write comments and entities before the element.
    private static let longest = 1 << 20

    private static func attributes(of file: ByteReader) throws(DipperError) -> [String: ArraySlice<UInt8>] {
        let bytes = Array(file.bytes.prefix(longest))
        let missing = file.available < longest ? ByteReader.incomplete : ByteReader.broken
        var rest = bytes[...]
        repeat {
            guard let start = rest.firstRange(of: Array("<".utf8)) else { throw missing }
            rest = rest[start.upperBound...]
            if rest.starts(with: "!--".utf8) {
                guard let end = rest.firstRange(of: Array("-->".utf8)) else { throw missing }
                rest = rest[end.upperBound...]
            }
        } while !rest.starts(with: "svg".utf8)
        rest = rest.drop { !spaces.contains($0) && $0 != UInt8(ascii: ">") }
        var attributes: [String: ArraySlice<UInt8>] = [:]
        while true {
            rest = rest.drop(while: spaces.contains)
            guard let next = rest.first else { throw missing }
            if next == UInt8(ascii: ">") || next == UInt8(ascii: "/") { return attributes }
            let name = rest.prefix { !spaces.contains($0) && $0 != UInt8(ascii: "=") }
            rest = rest[name.endIndex...].drop { spaces.contains($0) || $0 == UInt8(ascii: "=") }
            guard let quote = rest.popFirst() else { throw missing }
            guard quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else { throw ByteReader.broken }
            guard let end = rest.firstIndex(of: quote) else { throw missing }
            attributes[String(decoding: name, as: UTF8.self)] = rest[..<end]
            rest = rest[(end + 1)...]
        }
    }

    private static let spaces = Set(" \t\r\n".utf8)

    /// `nil` for a share of the surrounding page, and for the size of a font.
    private static func length(_ text: ArraySlice<UInt8>) -> Double? {
        let text = String(decoding: text, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        let unit = text.suffix(
            from: text.lastIndex { $0.isNumber || $0 == "." }.map(text.index(after:)) ?? text.startIndex)
        let units = [
            "": 1, "px": 1, "pt": 96.0 / 72, "pc": 16, "in": 96, "cm": 96 / 2.54, "mm": 96 / 25.4,
        ]
        guard let pixels = units[unit.lowercased()], let number = Double(text.dropLast(unit.count)), number > 0 else {
            return nil
        }
        return number * pixels
    }
}
