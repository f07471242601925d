import Foundation

/// A JPEG file split into segments, which tests change and reassemble.
struct JPEGFile {
    /// Marker segments up to the first scan.
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

    /// Writes another size than the picture's into the frame header.
    mutating func claim(width: Int, height: Int) {
        changeFrame(1, to: [height >> 8, height & 255, width >> 8, width & 255].map { UInt8($0) })
    }

    /// Inserts an application segment (APPn) at the front.
    mutating func insert(application number: UInt8, _ content: Data) {
        let length = content.count + 2
        header.insert(Data([0xFF, 0xE0 + number, UInt8(length >> 8), UInt8(length & 255)]) + content, at: 0)
    }
}
