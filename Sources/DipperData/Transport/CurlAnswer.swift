import CCurl

/// The status and the fields of an answer, which libcurl delivers line by line.
struct CurlAnswer {
    private(set) var status = 0
    private(set) var fields = HTTPHeaders()
    /// The announced length of the body in bytes; `nil` if the server has not announced one, or the answer has a
    /// content coding.
    private(set) var length: Int?
    /// The number of bytes of all lines, informational answers included.
    private(set) var size = 0
    /// Whether the empty line after the fields has arrived.
    private(set) var isComplete = false
    /// Whether the answer has a content coding, so that its `Content-Length` is not the length of the decoded body.
    private(set) var isCoded = false
    /// Whether the `Content-Length` values contradict each other, are not numbers, or are too many to read.
    private(set) var isMalformed = false
    private var isInformational = false
    /// Whether the last line was a valid field, which a folded line may continue.
    private var canContinue = false

    /// Takes a line, line break included. libcurl may deliver several lines at once: each is read as a line of its own,
    /// because a value must not contain a line break.
    mutating func take(_ lines: UnsafeRawBufferPointer) {
        var rest = lines
        while let end = rest.firstIndex(of: 0x0A), end + 1 < rest.count {
            takeLine(rest.part(0..<end + 1))
            rest = rest.part(end + 1..<rest.count)
        }
        takeLine(rest)
    }

    private mutating func takeLine(_ line: UnsafeRawBufferPointer) {
        size += line.count
        let isNext = isComplete ? isInformational : fields.isEmpty
        if isNext, line.starts(with: "HTTP/".utf8) {
            // A status line after an informational answer begins a new answer. Only the last answer counts.
            let size = size
            self = CurlAnswer()
            self.size = size
            let status = line.drop { $0 != UInt8(ascii: " ") }.dropFirst()
            isInformational = status.first == UInt8(ascii: "1") && !status.starts(with: "101".utf8)
            return
        }
        // Lines after the body are trailers, which are not fields of the answer.
        guard !isComplete, let first = line.first else { return }
        if Self.isLineBreak(first) {
            complete()
        } else if Self.isBlank(first) {
            if canContinue { fields.extendLast(with: Self.text(line)) }
        } else {
            canContinue = takeField(line)
        }
    }

    /// Takes a field. Returns `false` for a line that is not a well-formed field: parsers disagree about such lines, so
    /// it is ignored.
    private mutating func takeField(_ line: UnsafeRawBufferPointer) -> Bool {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return false }
        let name = String(decoding: line.part(0..<colon), as: UTF8.self)
        let value = Self.text(line.part(colon + 1..<line.count))
        guard name.isHeaderName, value.utf8.allSatisfy({ $0 != 0 && $0 != 0x0D }) else { return false }
        fields.append(name, value)
        return true
    }

    private mutating func complete() {
        isComplete = true
        isCoded = fields["Content-Encoding"] != nil
        // Different or malformed lengths are an error that cannot be recovered from (RFC 9112, section 6.3).
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
        // With a content coding the announced length counts the coded bytes.
        length = announced >= 0 && !isCoded ? Int(announced) : nil
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
    private static func isLineBreak(_ byte: UInt8) -> Bool { byte == 0x0D || byte == 0x0A }

    private static func text(_ bytes: UnsafeRawBufferPointer) -> String {
        var (start, end) = (0, bytes.count)
        while start < end, isBlank(bytes[start]) || isLineBreak(bytes[start]) { start += 1 }
        while start < end, isBlank(bytes[end - 1]) || isLineBreak(bytes[end - 1]) { end -= 1 }
        return String(decoding: bytes.part(start..<end), as: UTF8.self)
    }
}

extension UnsafeRawBufferPointer {
    /// Returns a part of the bytes. A slice would be slower without optimization.
    fileprivate func part(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: baseAddress.map { $0 + range.lowerBound }, count: range.count)
    }
}
