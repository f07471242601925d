import CCurl

/// Status and fields of an answer as libcurl hands them over, line by line.
struct CurlAnswer {
    private(set) var status = 0
    private(set) var fields = HTTPHeaders()
    /// The announced length of the body, if that is the length it has here.
    private(set) var length: Int?
    /// Bytes of all lines, those of informational answers included.
    private(set) var size = 0
    private var isComplete = false

    /// Takes a line, line break included.
    mutating func take(_ line: UnsafeRawBufferPointer) {
        size += line.count
        if line.starts(with: "HTTP/".utf8), isComplete || fields.isEmpty {
            // After an informational answer only the last one counts.
            fields = HTTPHeaders()
            status = 0
            length = nil
            isComplete = false
            return
        }
        // What follows a body are trailers, which are not fields of the answer.
        guard !isComplete, let first = line.first else { return }
        guard !Self.isLineBreak(first) else {
            isComplete = true
            return
        }
        if Self.isBlank(first) {
            fields.extendLast(with: Self.text(line[...]))
            return
        }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return }
        let name = Self.text(line[..<colon])
        if name.isHeaderName { fields.append(name, Self.text(line[(colon + 1)...])) }
    }

    mutating func readStatus(_ handle: UnsafeMutableRawPointer) {
        var code = 0
        _ = dipper_curl_get_long(handle, CURLINFO_RESPONSE_CODE, &code)
        status = code
        var announced: curl_off_t = -1
        _ = dipper_curl_get_off(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced)
        // With a content coding the length is that of the coded bytes.
        length = announced >= 0 && fields["Content-Encoding"] == nil ? Int(announced) : nil
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
    private static func isLineBreak(_ byte: UInt8) -> Bool { byte == 0x0D || byte == 0x0A }

    private static func text(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        let isSpace: (UInt8) -> Bool = { isBlank($0) || isLineBreak($0) }
        let start = bytes.firstIndex { !isSpace($0) } ?? bytes.endIndex
        let end = bytes.lastIndex { !isSpace($0) }.map { $0 + 1 } ?? start
        return String(decoding: bytes[start..<end], as: UTF8.self)
    }
}
