import Foundation

/// A gzip encoder (RFC 1952) that writes stored deflate blocks (RFC 1951, section 3.2.4).
///
/// Every decoder accepts the result. It is not smaller than the data, but needs no zlib.
enum Gzip {
    static func stored(_ data: Data) -> Data {
        // Magic, method deflate, no flags, no time, no extra flags, unknown system.
        var result = Data([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255])
        var offset = 0
        repeat {
            let count = min(data.count - offset, 0xFFFF)
            let isLast = offset + count == data.count
            result.append(isLast ? 1 : 0)
            append(UInt16(count), to: &result)
            append(~UInt16(count), to: &result)
            result += data.dropFirst(offset).prefix(count)
            offset += count
        } while offset < data.count
        append(crc32(data), to: &result)
        append(UInt32(truncatingIfNeeded: data.count), to: &result)
        return result
    }

    private static func append(_ value: some FixedWidthInteger, to data: inout Data) {
        withUnsafeBytes(of: value.littleEndian) { data.append(contentsOf: $0) }
    }

    private static let table: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { value, _ in
            value & 1 == 1 ? 0xEDB8_8320 ^ (value >> 1) : value >> 1
        }
    }

    private static func crc32(_ data: Data) -> UInt32 {
        table.withUnsafeBufferPointer { table in
            data.withUnsafeBytes { bytes in
                var crc = ~UInt32(0)
                var index = 0
                while index < bytes.count {
                    crc = table[Int((crc ^ UInt32(bytes[index])) & 0xFF)] ^ (crc &>> 8)
                    index &+= 1
                }
                return ~crc
            }
        }
    }
}
