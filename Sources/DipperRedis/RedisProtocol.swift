#if Redis
    import CHiredis
    internal import DipperData
    import Foundation

    enum RedisReply: Sendable, Equatable {
        case nothing
        case text(String)
        case number(Int)
        case bytes(Data)
        /// A message, or the answer to a subscription.
        case list([Data])
        /// The server refuses the command. Only the first word of its reason, such as `OOM`: the rest may quote a password.
        case refused(String)
    }

    extension Data {
        static func word(_ text: String) -> Data { Data(text.utf8) }
    }

    /// The bytes to send, in the order of the commands.
    struct RedisCommands {
        /// Longer ones are not copied.
        private static let copied = 64 << 10

        private var parts = Deque<Data>()
        private var last = Data()
        /// The number of bytes of the first part that have been sent.
        private var sent = 0
        private(set) var count = 0

        mutating func append(command words: [Data]) {
            append(.word("*\(words.count)\r\n"))
            for word in words {
                append(.word("$\(word.count)\r\n"))
                append(word)
                append(.word("\r\n"))
            }
        }

        private mutating func append(_ bytes: Data) {
            count += bytes.count
            if bytes.count <= Self.copied { return last.append(bytes) }
            if !last.isEmpty { parts.append(last) }
            parts.append(bytes)
            last = Data()
        }

        /// Sends bytes of the first part.
        mutating func send(_ write: (UnsafeRawBufferPointer) -> RedisStream.Step) -> RedisStream.Step {
            if parts.isEmpty {
                parts.append(last)
                last = Data()
            }
            let step = parts[0].withUnsafeBytes { write(UnsafeRawBufferPointer(rebasing: $0[sent...])) }
            if case .moved(let moved) = step {
                count -= moved
                sent += moved
                if sent == parts[0].count {
                    _ = parts.popFirst()
                    sent = 0
                }
            }
            return step
        }
    }

    /// Reads replies with hiredis. Longer values are read straight into their place, because hiredis would copy each at once,
    /// and nothing that grows with a value may run on the loop.
    @Loop
    final class RedisReplies {
        private struct Value {
            let start: UnsafeMutableRawPointer
            /// With the two bytes that end it.
            let size: Int
            var filled = 0
        }

        /// In bytes. Longer values are not left to hiredis.
        private static let short = 64 << 10
        private static let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)

        private let limit: Int
        private var reader: UnsafeMutablePointer<redisReader>
        private var value: Value?
        /// A value that has come by itself.
        private var whole: Data?

        /// - Parameter limit: the size of the largest value to read, in bytes.
        init?(limit: Int) {
            guard let reader = redisReaderCreate() else { return nil }
            (self.limit, self.reader) = (limit, reader)
        }

        func end() {
            redisReaderFree(reader)
            if let value { free(value.start) }
            value = nil
        }

        /// Where to put the next bytes of the connection.
        var room: UnsafeMutableRawBufferPointer {
            guard let value else { return Self.scratch }
            return UnsafeMutableRawBufferPointer(start: value.start + value.filled, count: value.size - value.filled)
        }

        /// Takes the bytes that have been put into ``room``.
        func take(_ count: Int) throws(DipperError) {
            if value != nil {
                value?.filled += count
                return
            }
            whole = wholeValue(UnsafeRawBufferPointer(rebasing: Self.scratch[..<count]))
            if whole == nil, redisReaderFeed(reader, Self.scratch.baseAddress, count) != REDIS_OK {
                throw .malformedResponse
            }
        }

        /// Returns the value of a reply that has come whole and by itself, as most do: hiredis would copy it twice more.
        private func wholeValue(_ bytes: UnsafeRawBufferPointer) -> Data? {
            guard reader.pointee.ridx < 0, unread.isEmpty, bytes.first == UInt8(ascii: "$"),
                let end = bytes.prefix(24).firstIndex(of: UInt8(ascii: "\r")),
                let size = Int(String(decoding: bytes[1..<end], as: UTF8.self)), size >= 0,
                size == bytes.count - end - 4, bytes[end + 1] == UInt8(ascii: "\n"),
                bytes.suffix(2).elementsEqual("\r\n".utf8)
            else { return nil }
            return Data(UnsafeRawBufferPointer(rebasing: bytes[(end + 2)...].prefix(size)))
        }

        /// Returns the next reply that is complete.
        /// - Throws: an error after which the connection is of no use: the reply is too large, or no reply.
        func next() throws(DipperError) -> RedisReply? {
            if let whole = exchange(&whole, with: nil) { return .bytes(whole) }
            if value == nil, let list = try readList() { return list }
            if value == nil, try !begin() { return nil }
            guard let value else { return try short() }
            guard value.filled == value.size else { return nil }
            self.value = nil
            forgetRead()
            return .bytes(Data(bytesNoCopy: value.start, count: value.size - 2, deallocator: .free))
        }

        private var unread: UnsafeRawBufferPointer {
            let (bytes, from, to) = (reader.pointee.buf, reader.pointee.pos, reader.pointee.len)
            return UnsafeRawBufferPointer(start: bytes.map { $0 + from }, count: bytes == nil ? 0 : to - from)
        }

        /// Looks at a reply before hiredis does, which would make room for whatever it announces.
        /// - Returns: `false` if there is too little of it.
        private func begin() throws(DipperError) -> Bool {
            let unread = unread
            guard let kind = unread.first else { return false }
            // In the middle of a short one.
            if reader.pointee.ridx >= 0 {
                if unread.count > 4 * Self.short { throw .malformedResponse }
                return true
            }
            guard kind == UInt8(ascii: "$") else {
                guard "+-:*".utf8.contains(kind) else { throw .malformedResponse }
                // All of a list is read at once.
                return kind != UInt8(ascii: "*")
            }
            guard let end = unread.prefix(24).firstIndex(of: UInt8(ascii: "\r")), end + 2 <= unread.count else {
                if unread.count > 24 { throw .malformedResponse }
                return false
            }
            guard let count = Int(String(decoding: unread[1..<end], as: UTF8.self)) else { throw .malformedResponse }
            if count <= Self.short { return true }
            if count > limit { throw .tooLarge }
            guard let start = malloc(count + 2) else { throw .tooLarge }
            let rest = UnsafeRawBufferPointer(rebasing: unread[(end + 2)...].prefix(count + 2))
            rest.baseAddress.map { _ = memcpy(start, $0, rest.count) }
            reader.pointee.pos += end + 2 + rest.count
            value = Value(start: start, size: count + 2, filled: rest.count)
            return true
        }

        /// Reads a list of a few short texts and numbers; `nil` if there is none, or too little of it.
        private func readList() throws(DipperError) -> RedisReply? {
            guard reader.pointee.ridx < 0, unread.first == UInt8(ascii: "*") else { return nil }
            var rest = unread[...]
            var words: [Data] = []
            var count: Int?
            while count != words.count {
                guard let end = rest.prefix(24).firstIndex(of: UInt8(ascii: "\r")), end + 2 <= rest.endIndex else {
                    if rest.count > 24 { throw .malformedResponse }
                    return nil
                }
                let (mark, digits) = (rest.first, Data(rest[..<end].dropFirst()))
                rest = rest[(end + 2)...]
                switch (mark, Int(String(decoding: digits, as: UTF8.self)), count) {
                case (UInt8(ascii: "*"), let number?, nil) where (1...4).contains(number): count = number
                case (UInt8(ascii: ":"), .some, .some): words.append(digits)
                case (UInt8(ascii: "$"), let size?, .some) where (0...1_024).contains(size):
                    guard rest.count >= size + 2 else { return nil }
                    words.append(Data(rest.prefix(size)))
                    rest = rest.dropFirst(size + 2)
                default: throw .malformedResponse
                }
            }
            reader.pointee.pos += unread.count - rest.count
            forgetRead()
            return .list(words)
        }

        /// hiredis itself forgets what has been read only with a reply that it has read.
        private func forgetRead() {
            guard reader.pointee.pos == reader.pointee.len, reader.pointee.len > 4 * Self.short,
                let new = redisReaderCreate()
            else { return }
            redisReaderFree(reader)
            reader = new
        }

        private func short() throws(DipperError) -> RedisReply? {
            var object: UnsafeMutableRawPointer?
            guard redisReaderGetReply(reader, &object) == REDIS_OK else { throw .malformedResponse }
            guard let object else { return nil }
            defer { freeReplyObject(object) }
            let reply = object.assumingMemoryBound(to: redisReply.self).pointee
            let bytes = UnsafeRawBufferPointer(start: reply.str, count: reply.str == nil ? 0 : reply.len)
            switch reply.type {
            case REDIS_REPLY_NIL: return .nothing
            case REDIS_REPLY_INTEGER: return .number(Int(reply.integer))
            case REDIS_REPLY_STRING: return .bytes(Data(bytes))
            case REDIS_REPLY_STATUS: return .text(String(decoding: bytes, as: UTF8.self))
            case REDIS_REPLY_ERROR:
                let word = bytes.prefix(20).prefix { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
                return .refused(String(decoding: word, as: UTF8.self))
            default: throw .malformedResponse
            }
        }
    }
#endif
