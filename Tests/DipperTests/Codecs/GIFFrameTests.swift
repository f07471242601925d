#if GIF
    import CPixels
    import TestSupport
    import Testing

    @Suite("Complete frames of GIF are unpacked without giflib", .timeLimit(.minutes(1)))
    struct GIFFrameTests {
        @Test("Frames with codes of every size, cleared anywhere, in blocks of any length", arguments: 2...8)
        func everyCode(_ codeSize: Int) throws {
            var random = SeededRandom(UInt64(codeSize))
            for (round, size) in [(1, 1), (2, 1), (7, 9), (64, 64), (150, 120), (1000, 3)].enumerated() {
                for clearing in GIFCodes.Clearing.allCases {
                    let (width, height) = size
                    let indices = Self.indices(width * height, below: 1 << codeSize, &random)
                    let blocks = GIFCodes(codeSize, clearing).blocks(of: indices, &random)
                    let found = unpack(blocks + [0x3B], width * height, codeSize)
                    let isSame = found?.indices == indices && found?.used == blocks.count
                    #expect(isSame, "\(size), \(clearing)")
                    let isInterlaced = round % 2 == 0
                    let file = Self.file(width, height, codeSize, blocks, isInterlaced)
                    let image = try CodecRegistry.standard.decode(Data(file))
                    let expected = Self.pixels(indices, width, height, isInterlaced)
                    #expect(image.pixels == expected, "\(size), \(clearing)")
                }
            }
        }

        @Test("Frames with changed bytes are unpacked as by a plain decoder, or left to giflib", arguments: 2...8)
        func changed(_ codeSize: Int) throws {
            var random = SeededRandom(UInt64(30 + codeSize))
            var unpacked = 0
            for round in 0..<200 {
                let count = Int.random(in: 1...900, using: &random)
                let indices = Self.indices(count, below: 1 << codeSize, &random)
                let clearing = GIFCodes.Clearing.allCases[round % 4]
                var blocks = GIFCodes(codeSize, clearing).blocks(of: indices, &random)
                for _ in 0...round % 3 { MadePNG.change(&blocks, &random) }
                let found = unpack(blocks, count, codeSize)
                let expected = GIFCodes.unpack(blocks, count, codeSize)
                let isSame = found?.indices == expected?.indices && found?.used == expected?.used
                #expect(isSame, "\(round)")
                if found != nil { unpacked += 1 }
                // Whatever giflib makes of it.
                _ = CodecRegistry.standard.failure(Data(Self.file(count, 1, codeSize, blocks, false)), .partial)
            }
            #expect(unpacked > 5 && unpacked < 180, "\(unpacked)")
        }

        @Test("What is behind the last pixel is passed over; a frame that ends early is left to giflib")
        func ends() throws {
            var random = SeededRandom(4)
            let indices = Self.indices(1200, below: 16, &random)
            let blocks = GIFCodes(4, .whenFull).blocks(of: indices, &random)
            // More pixels than the frame has.
            #expect(unpack(blocks, 1000, 4)?.indices == Array(indices.prefix(1000)))
            #expect(unpack(blocks, 1000, 4)?.used == blocks.count)
            #expect(unpack(blocks, 1201, 4) == nil)
            for length in [0, 1, blocks.count / 2, blocks.count - 1] {
                #expect(unpack(Array(blocks.prefix(length)), 1200, 4) == nil)
            }
            for codeSize in [0, 1, 9, 255] { #expect(unpack(blocks, 1200, codeSize) == nil) }
            // As browsers do, the rows before the end code are shown.
            let image = try CodecRegistry.standard.decode(Data(Self.file(40, 40, 4, blocks, false)))
            #expect(image.pixels == Self.pixels(indices, 40, 30, false) + Array(repeating: 0, count: 1600))
        }

        @Test("A first frame that is broken is the picture and its only frame, if a part of a picture is enough")
        func brokenFirst() throws {
            var random = SeededRandom(9)
            let indices = Self.indices(40 * 30, below: 16, &random)
            let good = GIFCodes(4, .whenFull).blocks(of: indices, &random)
            try #require(good[0] > 9)
            var broken = good
            // No code has so high a number yet.
            broken.replaceSubrange(6...9, with: [255, 255, 255, 255])
            let header = HeaderBytes.gif(40, 30, []).count
            let file = Data(
                Self.file(40, 30, 4, broken, false).dropLast()
                    + Self.file(40, 30, 4, good, false).dropFirst(header))
            #expect(CodecRegistry.standard.failure(file) == .undecodable)
            let image = try CodecRegistry.standard.decode(file, .partial)
            let frames = try #require(try image.animation?.makeFrameDecoder())
            #expect(try frames.next()?.image.pixels == image.pixels)
            #expect(try frames.next() == nil)
            let copy = try CodecRegistry.standard.encode(image, as: .gif)
            #expect(try CodecRegistry.standard.decode(copy).pixels == image.pixels)
        }

        private func unpack(_ blocks: [UInt8], _ count: Int, _ codeSize: Int) -> (indices: [UInt8], used: Int)? {
            let memory = UnsafeMutableRawPointer.allocate(byteCount: pixels_gif_memory(count), alignment: 16)
            defer { memory.deallocate() }
            var used = 0
            return pixels_gif_unpack(memory, count, blocks, blocks.count, UInt32(codeSize), &used).map {
                (Array(UnsafeBufferPointer(start: $0, count: count)), used)
            }
        }

        /// Noise, and runs, which have long codes.
        private static func indices(_ count: Int, below limit: Int, _ random: inout SeededRandom) -> [UInt8] {
            var indices: [UInt8] = []
            while indices.count < count {
                let index = UInt8(Int(random.next() % UInt64(limit)))
                let isRun = random.next() % 6 == 0
                indices += Array(repeating: index, count: isRun ? Int.random(in: 1...400, using: &random) : 1)
            }
            return Array(indices.prefix(count))
        }

        private static func color(_ index: UInt8) -> [UInt8] { [index, 255 - index, index / 2] }

        private static func file(
            _ width: Int, _ height: Int, _ codeSize: Int, _ blocks: [UInt8], _ isInterlaced: Bool
        ) -> [UInt8] {
            let palette = (0...255).flatMap { color(UInt8($0)) }
            return HeaderBytes.gif(
                width, height,
                [0x2C, 0, 0, 0, 0] + HeaderBytes.little16(width) + HeaderBytes.little16(height)
                    + [isInterlaced ? 0xC7 : 0x87] + palette + [UInt8(codeSize)] + blocks + [0x3B])
        }

        private static func pixels(
            _ indices: [UInt8], _ width: Int, _ height: Int, _ isInterlaced: Bool
        ) -> [UInt8] {
            let passes = isInterlaced ? [(0, 8), (4, 8), (2, 4), (1, 2)] : [(0, 1)]
            let order = passes.flatMap { Array(stride(from: $0.0, to: height, by: $0.1)) }
            var rows = [[UInt8]](repeating: [], count: height)
            for (place, y) in order.enumerated() {
                rows[y] = indices[place * width..<(place + 1) * width].flatMap { color($0) + [255] }
            }
            return rows.flatMap(\.self)
        }
    }

    /// LZW as GIF has it (GIF 89a, appendix F), written plainly.
    private struct GIFCodes {
        enum Clearing: CaseIterable {
            case whenFull
            /// The table stays as it is once it is full.
            case never
            case anywhere
            /// Without a clear code at the start.
            case lateStart
        }

        private let codeSize: Int
        private let clearing: Clearing

        init(_ codeSize: Int, _ clearing: Clearing) {
            self.codeSize = codeSize
            self.clearing = clearing
        }

        func blocks(of indices: [UInt8], _ random: inout SeededRandom) -> [UInt8] {
            let clear = 1 << codeSize
            var bytes: [UInt8] = []
            var (bits, bitCount, width) = (0, 0, codeSize + 1)
            var (known, next): ([[UInt8]: Int], Int) = ([:], clear + 2)
            func put(_ code: Int) {
                bits |= code << bitCount
                bitCount += width
                while bitCount >= 8 {
                    bytes.append(UInt8(bits & 255))
                    bits >>= 8
                    bitCount -= 8
                }
            }
            func reset() {
                put(clear)
                (known, next, width) = ([:], clear + 2, codeSize + 1)
            }
            func code(_ string: [UInt8]) -> Int? { string.count == 1 ? Int(string[0]) : known[string] }
            if clearing != .lateStart { reset() }
            var string: [UInt8] = []
            // A decoder knows a string one code later than the encoder.
            var isFirst = true
            for index in indices {
                if code(string + [index]) != nil {
                    string.append(index)
                    continue
                }
                if let found = code(string) { put(found) }
                if next < 4096 {
                    known[string + [index]] = next
                    if !isFirst, next == 1 << width, width < 12 { width += 1 }
                    next += 1
                }
                isFirst = false
                string = [index]
                if clearing == .whenFull && next == 4096 || clearing == .anywhere && random.next() % 50 == 0 {
                    reset()
                    isFirst = true
                }
            }
            if let found = code(string) { put(found) }
            if next < 4096, !isFirst, next == 1 << width, width < 12 { width += 1 }
            put(clear + 1)
            if bitCount > 0 { bytes.append(UInt8(bits & 255)) }
            var blocks: [UInt8] = []
            var rest = bytes[...]
            while !rest.isEmpty {
                let length = min(rest.count, clearing == .whenFull ? 255 : Int.random(in: 1...255, using: &random))
                blocks += [UInt8(length)] + rest.prefix(length)
                rest = rest.dropFirst(length)
            }
            return blocks + [0]
        }

        /// `nil` if a code is not known, or the blocks end before the pixels.
        static func unpack(_ blocks: [UInt8], _ count: Int, _ codeSize: Int) -> (indices: [UInt8], used: Int)? {
            var bytes: [UInt8] = []
            var offset = 0
            while true {
                guard offset < blocks.count else { return nil }
                let length = Int(blocks[offset])
                if length == 0 { break }
                guard offset + length < blocks.count else { return nil }
                bytes += blocks[offset + 1...offset + length]
                offset += 1 + length
            }
            let clear = 1 << codeSize
            var (bit, width) = (0, codeSize + 1)
            var (strings, last): ([[UInt8]], [UInt8]?) = ([], nil)
            var indices: [UInt8] = []
            while indices.count < count {
                guard bit + width <= bytes.count * 8 else { return nil }
                let code = (0..<width).reduce(0) { $0 | Int(bytes[(bit + $1) / 8] >> UInt8((bit + $1) % 8) & 1) << $1 }
                bit += width
                if code == clear {
                    (strings, last, width) = ([], nil, codeSize + 1)
                    continue
                }
                if code == clear + 1 { return nil }
                var string: [UInt8]
                if code < clear {
                    string = [UInt8(code)]
                } else if code - clear - 2 < strings.count {
                    string = strings[code - clear - 2]
                } else if code - clear - 2 == strings.count, let last, clear + 2 + strings.count < 4096 {
                    string = last + [last[0]]
                } else {
                    return nil
                }
                if let last, clear + 2 + strings.count < 4096 {
                    strings.append(last + [string[0]])
                    if clear + 2 + strings.count == 1 << width, width < 12 { width += 1 }
                }
                last = string
                indices += string
            }
            return (Array(indices.prefix(count)), offset + 1)
        }
    }
#endif
