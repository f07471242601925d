import CCurl

/// Status and fields of an answer as libcurl hands them over, line by line.
struct CurlAnswer {
    private(set) var status = 0
    private(set) var fields = HTTPHeaders()
    /// The announced length of the body, if that is the length it has here.
    private(set) var length: Int?
    /// Bytes of all lines, those of informational answers included.
    private(set) var size = 0
    /// The empty line behind the fields has come.
    private(set) var isComplete = false
    /// The body is not as long as its length says, once it is decoded.
    private(set) var isCoded = false
    /// The head says two things at once, or nothing that can be understood.
    private(set) var isMalformed = false
    private var isInformational = false
    /// The last line was a field that has been taken.
    private var canContinue = false

    /// Takes a line, line break included. Of several at once, as libcurl may hand them over, each counts by itself: a
    /// value must never hold a line break.
    mutating func take(_ lines: UnsafeRawBufferPointer) {
        var rest = lines[...]
        while let end = rest.firstIndex(of: 0x0A), end + 1 < rest.endIndex {
            takeLine(UnsafeRawBufferPointer(rebasing: rest[...end]))
            rest = rest[(end + 1)...]
        }
        takeLine(UnsafeRawBufferPointer(rebasing: rest))
    }

    private mutating func takeLine(_ line: UnsafeRawBufferPointer) {
        size += line.count
        let isNext = isComplete ? isInformational : fields.isEmpty
        if isNext, line.starts(with: "HTTP/".utf8) {
            // After an informational answer only the last one counts.
            let size = size
            self = CurlAnswer()
            self.size = size
            let status = line.drop { $0 != UInt8(ascii: " ") }.dropFirst()
            isInformational = status.first == UInt8(ascii: "1") && !status.starts(with: "101".utf8)
            return
        }
        // What follows a body are trailers, which are not fields of the answer.
        guard !isComplete, let first = line.first else { return }
        if Self.isLineBreak(first) {
            complete()
        } else if Self.isBlank(first) {
            if canContinue { fields.extendLast(with: Self.text(line[...])) }
        } else {
            canContinue = takeField(line)
        }
    }

    /// False if the line is no field. Two parsers may take such a line for two things: it counts for nothing.
    private mutating func takeField(_ line: UnsafeRawBufferPointer) -> Bool {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return false }
        let name = String(decoding: line[..<colon], as: UTF8.self)
        let value = Self.text(line[(colon + 1)...])
        guard name.isHeaderName, value.utf8.allSatisfy({ $0 != 0 && $0 != 0x0D }) else { return false }
        fields.append(name, value)
        return true
    }

    private mutating func complete() {
        isComplete = true
        isCoded = fields["Content-Encoding"] != nil
        // Lengths that differ, or are none, cannot be recovered from (RFC 9112, section 6.3).
        let list = fields.fieldList("Content-Length")
        let lengths = Set(list.members)
        isMalformed = list.isCut || lengths.count > 1 || !lengths.allSatisfy { $0.utf8.allSatisfy(\.isDigit) }
    }

    mutating func readStatus(_ handle: UnsafeMutableRawPointer) {
        var code = 0
        _ = dipper_curl_get_long(handle, CURLINFO_RESPONSE_CODE, &code)
        status = code
        var announced: curl_off_t = -1
        _ = dipper_curl_get_off(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced)
        // With a content coding the length is that of the coded bytes.
        length = announced >= 0 && !isCoded ? Int(announced) : nil
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
