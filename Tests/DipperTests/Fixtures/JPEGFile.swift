import Foundation

/// A JPEG file taken apart, to be put together differently.
struct JPEGFile {
    /// Marker segments up to the first scan.
    var header: [Data] = []
    /// Scans, each with the tables before it.
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

    /// Changes the parameters of the frame: 0 is the precision, 1 the height's higher byte, 3 the width's, 5 how many
    /// components there are, 6 the first one's identifier.
    mutating func changeFrame(_ index: Int, to values: [UInt8]) {
        for segment in header.indices where (0xC0...0xC2).contains(header[segment][1]) {
            header[segment].replaceSubrange(4 + index..<4 + index + values.count, with: values)
        }
    }

    /// Another size than the picture has.
    mutating func claim(width: Int, height: Int) {
        changeFrame(1, to: [height >> 8, height & 255, width >> 8, width & 255].map { UInt8($0) })
    }

    /// Adds an application's segment in front.
    mutating func insert(application number: UInt8, _ content: Data) {
        let length = content.count + 2
        header.insert(Data([0xFF, 0xE0 + number, UInt8(length >> 8), UInt8(length & 255)]) + content, at: 0)
    }
}
