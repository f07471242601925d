import Foundation

/// The small files of `/proc` and `/sys`. Contents that do not have the expected form count as missing.
enum KernelText {
    /// The most bytes that are read: more than any of these files has.
    private static let limit = 64 << 10

    static func read(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        return read(descriptor)
    }

    /// Reads a file from its beginning. Reading it also makes `poll` wait for the next change.
    static func read(_ descriptor: Int32) -> String? {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while bytes.count < limit {
            let count = pread(descriptor, &chunk, chunk.count, off_t(bytes.count))
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return nil }
            if count == 0 { break }
            bytes += chunk[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns the number that a text holds; `nil` for `max` and for anything else that is not a number.
    static func number(_ text: String?) -> Int? {
        text.flatMap { Int($0.trimmingCharacters(in: .whitespacesAndNewlines)) }.flatMap { $0 >= 0 ? $0 : nil }
    }

    /// Returns the number after a name that begins a line: `name 12` or `Name:  12 kB`.
    static func number(_ name: String, in text: String) -> Int? {
        for line in text.split(separator: "\n") {
            let parts = line.split(whereSeparator: { $0 == " " || $0 == "\t" || $0 == ":" })
            if parts.count >= 2, parts[0] == name { return number(String(parts[1])) }
        }
        return nil
    }
}
