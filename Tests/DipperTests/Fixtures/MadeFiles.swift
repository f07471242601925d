import CZlib
import Dipper
import Foundation
import Testing

/// Headers of picture files, built byte by byte.
enum HeaderBytes {
    static func big16(_ value: Int) -> [UInt8] { [UInt8(value >> 8 & 255), UInt8(value & 255)] }
    static func big32(_ value: Int) -> [UInt8] { big16(value >> 16) + big16(value) }
    static func little16(_ value: Int) -> [UInt8] { big16(value).reversed() }
    static func little32(_ value: Int) -> [UInt8] { big32(value).reversed() }

    static func box(_ type: String, _ content: [UInt8], length: Int? = nil) -> [UInt8] {
        big32(length ?? content.count + 8) + Array(type.utf8) + content
    }

    static func fullBox(_ type: String, flags: Int = 0, _ content: [UInt8]) -> [UInt8] {
        box(type, big32(flags) + content)
    }

    static func chunk(_ type: String, _ content: [UInt8], length: Int? = nil) -> [UInt8] {
        let named = Array(type.utf8) + content
        return big32(length ?? content.count) + named + big32(Int(crc32(0, named, uInt(named.count))))
    }

    static let pngSignature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

    static func pngHeader(_ width: Int, _ height: Int) -> [UInt8] {
        pngSignature + chunk("IHDR", big32(width) + big32(height) + [8, 2, 0, 0, 0])
    }

    /// Returns a TIFF structure with one directory whose entries have values of four bytes.
    static func directory(_ entries: [(tag: Int, type: Int, count: Int, value: Int)], offset: Int = 8) -> [UInt8] {
        var bytes = Array("II*\0".utf8) + little32(offset) + little16(entries.count)
        for entry in entries {
            bytes += little16(entry.tag) + little16(entry.type) + little32(entry.count) + little32(entry.value)
        }
        return bytes + [0, 0, 0, 0]
    }

    static func segment(_ marker: UInt8, _ content: [UInt8], length: Int? = nil) -> [UInt8] {
        [0xFF, marker] + big16(length ?? content.count + 2) + content
    }

    static func jpeg(_ width: Int, _ height: Int, _ segments: [[UInt8]] = [], frame: UInt8 = 0xC0) -> [UInt8] {
        [0xFF, 0xD8] + segments.joined()
            + segment(frame, [8] + big16(height) + big16(width) + [3, 1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0])
            + segment(0xDA, [3, 1, 0, 2, 0, 3, 0, 0, 63, 0])
    }

    static func gif(_ width: Int, _ height: Int, _ blocks: [UInt8]) -> [UInt8] {
        Array("GIF89a".utf8) + little16(width) + little16(height) + [0, 0, 0] + blocks
    }

    static let gifFrame: [UInt8] = [0x2C, 0, 0, 0, 0, 1, 0, 1, 0, 0x80, 0, 0, 0, 255, 255, 255, 2, 2, 0x44, 1, 0]

    static func riff(_ type: String, _ content: [UInt8], length: Int? = nil) -> [UInt8] {
        Array(type.utf8) + little32(length ?? content.count) + content
    }

    static func webP(_ chunks: [UInt8], length: Int? = nil) -> [UInt8] {
        riff("RIFF", Array("WEBP".utf8) + chunks, length: length ?? chunks.count + 4)
    }

    /// Returns the boxes of an AVIF or HEIC file up to the properties of item 1.
    static func heif(properties: [[UInt8]], own: [UInt8]? = nil) -> [UInt8] {
        let own = own ?? properties.indices.map { UInt8($0 + 1) }
        let associations = big32(1) + big16(1) + [UInt8(own.count)] + own
        let container = box("ipco", Array(properties.joined()))
        return box("ftyp", Array("avif\0\0\0\0mif1".utf8))
            + fullBox("meta", fullBox("pitm", big16(1)) + box("iprp", container + fullBox("ipma", associations)))
    }

    /// The header of a bitmap; that of an icon counts the rows of its mask too.
    static func bitmap(_ width: Int, _ height: Int, bits: Int, coding: Int = 0, colors: Int = 0) -> [UInt8] {
        little32(40) + little32(width) + little32(height) + [1, 0] + little16(bits) + little32(coding)
            + [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] + little32(colors) + [0, 0, 0, 0]
    }

    /// A file whose pixels follow the header or the palette.
    static func bmp(_ bitmap: [UInt8]) -> [UInt8] {
        Array("BM".utf8) + little32(14 + bitmap.count) + [0, 0, 0, 0, 0, 0, 0, 0] + bitmap
    }

    static func ico(_ icons: [(width: Int, height: Int, bytes: [UInt8])]) -> [UInt8] {
        var (entries, bodies): ([UInt8], [UInt8]) = ([], [])
        for icon in icons {
            let start = 6 + icons.count * 16 + bodies.count
            entries += [UInt8(icon.width & 255), UInt8(icon.height & 255), 0, 0, 1, 0, 32, 0]
            entries += little32(icon.bytes.count) + little32(start)
            bodies += icon.bytes
        }
        return [0, 0, 1, 0] + little16(icons.count) + entries + bodies
    }

    static func extent(_ width: Int, _ height: Int) -> [UInt8] { fullBox("ispe", big32(width) + big32(height)) }
}

/// A JPEG file split into segments, which tests change and reassemble.
struct JPEGFile {
    var header: [Data] = []
    /// Scans, each with the Huffman tables before it.
    var scans: [Data] = []

    init(_ data: Data) {
        let bytes = [UInt8](data)
        var position = 2
        var pending = Data()
        while position + 4 <= bytes.count, bytes[position + 1] != 0xD9 {
            var end = position + 2 + Int(bytes[position + 2]) << 8 + Int(bytes[position + 3])
            let code = bytes[position + 1]
            if code == 0xDA {
                while !(bytes[end] == 0xFF && bytes[end + 1] != 0 && !(0xD0...0xD7).contains(bytes[end + 1])) {
                    end += 1
                }
                scans.append(pending + Data(bytes[position..<end]))
                pending = Data()
            } else if code == 0xC4 {
                pending += Data(bytes[position..<end])
            } else {
                header.append(Data(bytes[position..<end]))
            }
            position = end
        }
    }

    var data: Data { Data([0xFF, 0xD8]) + header.joined() + scans.joined() + Data([0xFF, 0xD9]) }

    /// Changes bytes of the frame header from an index on: 0 is the precision, 1 the higher byte of the height, 3 the
    /// higher byte of the width, 5 the number of components, 6 the identifier of the first component.
    mutating func changeFrame(_ index: Int, to values: [UInt8]) {
        for segment in header.indices where (0xC0...0xC2).contains(header[segment][1]) {
            header[segment].replaceSubrange(4 + index..<4 + index + values.count, with: values)
        }
    }

    mutating func claim(width: Int, height: Int) {
        changeFrame(1, to: [height >> 8, height & 255, width >> 8, width & 255].map { UInt8($0) })
    }

    mutating func insert(application number: UInt8, _ content: Data) {
        let length = content.count + 2
        header.insert(Data([0xFF, 0xE0 + number, UInt8(length >> 8), UInt8(length & 255)]) + content, at: 0)
    }
}

struct PNGFile {
    var chunks: [(kind: String, body: [UInt8])]

    init(_ data: Data) {
        let bytes = [UInt8](data)
        chunks = []
        var offset = 8
        while offset + 12 <= bytes.count {
            let length = bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) }
            let kind = String(decoding: bytes[offset + 4..<offset + 8], as: UTF8.self)
            chunks.append((kind, Array(bytes[offset + 8..<offset + 8 + length])))
            offset += 12 + length
        }
    }

    /// Writes straight red, green, blue and alpha, without padding between rows.
    init(_ size: PixelSize, straight pixels: [UInt8]) throws {
        let stride = size.width * 4
        let rows = (0..<size.height).flatMap { [0] + pixels[$0 * stride..<($0 + 1) * stride] }
        var count = compressBound(uLong(rows.count))
        var body = [UInt8](repeating: 0, count: Int(count))
        try #require(compress(&body, &count, rows, uLong(rows.count)) == Z_OK)
        let header = HeaderBytes.big32(size.width) + HeaderBytes.big32(size.height) + [8, 6, 0, 0, 0]
        chunks = [("IHDR", header), ("IDAT", Array(body.prefix(Int(count)))), ("IEND", [])]
    }

    var data: Data {
        Data(HeaderBytes.pngSignature + chunks.flatMap { HeaderBytes.chunk($0.kind, $0.body) })
    }

    func claiming(width: UInt32, height: UInt32) -> Data {
        var copy = self
        copy.chunks[0].body.replaceSubrange(0..<8, with: [width, height].flatMap { HeaderBytes.big32(Int($0)) })
        return copy.data
    }
}
