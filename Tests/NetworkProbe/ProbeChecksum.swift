import Foundation

/// A checksum with which tests compare bodies: 64-bit FNV-1a, in hexadecimal digits.
public enum ProbeChecksum {
    public static func of(_ data: Data) -> String {
        String(data.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }, radix: 16)
    }
}
