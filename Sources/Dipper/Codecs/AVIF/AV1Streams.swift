#if AVIF
    import Foundation

    /// The memory that the AV1 decoder allocates for a file, found without decoding. It goes by the sequence headers inside the
    /// compressed data, whatever size the boxes around announce. All coded items and tracks count, also those that
    /// libavif does not decode; what it would refuse is refused.
    struct AV1Streams {
        private let file: ByteReader
        private let limits: DecodeLimits
        /// The units that may still be read. Items may share their bytes.
        private var units: Int
        /// In bytes. libavif decodes the items or the tracks of a file, not both.
        private var (items, tracks) = (0, 0)
        private var isPlain = true
        private var pictures = 0

        private init(_ file: ByteReader, _ limits: DecodeLimits) {
            (self.file, self.limits) = (file, limits)
            units = 2 * file.available + 1 << 16
        }

        /// Returns the memory in bytes, the number of coded pictures without those of tracks, and whether each is one
        /// frame without enlarging, restoration and grain. Throws `DipperError.imageTooLarge` if a frame has more pixels
        /// than the limits allow, `DipperError.undecodable` if the sizes of the frames cannot be read.
        static func needs(
            of file: ByteReader, _ limits: DecodeLimits
        ) throws(DipperError) -> (bytes: Int, pictures: Int, isPlain: Bool) {
            var streams = AV1Streams(file, limits)
            var boxes = BoxReader(file)
            // What follows the boxes that libavif needs may be anything.
            while let box = try? boxes.next() {
                if box.type == "meta" { try streams.readItems(box.content) }
                guard box.type == "moov" else { continue }
                var parts = BoxReader(box.content)
                while let part = try parts.next() {
                    if part.type == "trak" { try streams.readTrack(part.content) }
                }
            }
            guard max(streams.items, streams.tracks) > 0 else { throw ByteReader.broken }
            return (max(streams.items, streams.tracks), streams.pictures, streams.isPlain)
        }

        private mutating func readItems(_ meta: ByteReader) throws(DipperError) {
            var all = try HEIFItems(meta, in: file)
            if all.isEmpty { return }
            let sizes = try HEIFItem(meta).sizes()
            var (coded, bytesPerPixel) = (Set<Int>(), 1)
            try all.forEach(of: ["av01"]) { item, _, bytes throws(DipperError) in
                coded.insert(item)
                pictures += 1
                var stream = AV1Stream()
                try read(bytes, &stream)
                isPlain = isPlain && stream.isPlain && stream.frames <= 1
                // An item without a size has that of another.
                let size = sizes[item] ?? sizes.values.max { $0.width * $0.height < $1.width * $1.height }
                items = min(items + (try stream.byteCount(copiedTo: size)), 1 << 60)
                bytesPerPixel = max(bytesPerPixel, stream.bytesPerPixel)
            }
            // A grid is a copy of its tiles.
            for (_, size) in sizes.filter({ !coded.contains($0.key) }) {
                items = min(items + (try size.byteCount(bytesPerPixel)), 1 << 60)
            }
        }

        /// A track with its table of samples (ISO/IEC 14496-12, sections 8.5 to 8.7).
        private mutating func readTrack(_ track: ByteReader) throws(DipperError) {
            let media = try BoxReader.first("minf", in: BoxReader.first("mdia", in: track))
            var tables: [String: ByteReader] = [:]
            var boxes = BoxReader(try BoxReader.first("stbl", in: media))
            while let box = try boxes.next() {
                guard tables.updateValue(box.content, forKey: box.type) == nil else { throw ByteReader.broken }
            }
            guard let kinds = tables["stsd"], (try? BoxReader.first("av01", in: kinds.part(from: 8))) != nil else {
                return
            }
            guard let sizes = tables["stsz"], let runs = tables["stsc"], let chunks = tables["stco"] ?? tables["co64"],
                tables["stco"] == nil || tables["co64"] == nil
            else { throw ByteReader.broken }
            isPlain = false
            let width = tables["stco"] == nil ? 8 : 4
            let (sharedSize, runCount) = (try sizes.u32(at: 4), try runs.u32(at: 4))
            var stream = AV1Stream()
            var (sample, run) = (0, 0)
            for chunk in 0..<(try chunks.u32(at: 4)) {
                while run < runCount, try runs.u32(at: 8 + 12 * run) <= chunk + 1 { run += 1 }
                var start = try chunks.number(at: 8 + width * chunk, width)
                for _ in 0..<(try runs.u32(at: 12 * run)) {
                    guard sample < max(limits.frames, DecodeLimits().frames) else { throw ByteReader.broken }
                    let count = try sharedSize > 0 ? sharedSize : sizes.u32(at: 12 + 4 * sample)
                    try read(file.part(at: start, count: count), &stream)
                    start += count
                    sample += 1
                }
            }
            tracks = min(tracks + (try stream.byteCount(copiedTo: MovieTrack(track).size)), 1 << 60)
        }

        /// Reads the units of an item or a sample (AV1 Bitstream & Decoding Process Specification, section 5.3).
        private mutating func read(_ data: ByteReader, _ stream: inout AV1Stream) throws(DipperError) {
            var start = 0
            while start < data.available {
                units -= 1
                guard units > 0 else { throw ByteReader.broken }
                let header = try data.u8(at: start)
                start += header & 4 == 0 ? 1 : 2
                // Padding.
                if header == 0 { continue }
                var length = data.available - start
                if header & 2 != 0 {
                    length = 0
                    for shift in stride(from: 0, to: 56, by: 7) {
                        let byte = try data.u8(at: start)
                        start += 1
                        length |= (byte & 0x7F) << shift
                        if byte < 0x80 { break }
                    }
                }
                guard length <= data.available - start else { throw ByteReader.broken }
                let unit = try data.part(at: start, count: length)
                let kind = header >> 3 & 15
                if kind == 1 { try limits.check(stream.readSequence(unit)) }
                if kind == 3 || kind == 6 { stream.frames += 1 }
                start += length
            }
        }
    }

    private struct AV1Stream {
        var frames = 0
        /// In bytes, rounded up.
        private(set) var bytesPerPixel = 0
        /// Whether no frame may be enlarged (superres), be restored, or get grain.
        private(set) var isPlain = true
        private var sizes: Set<PixelSize> = []
        /// In bytes, of the largest frame.
        private var (blocks, frame) = (0, 0)

        /// A frame of another size is scaled to the size that the boxes announce.
        func byteCount(copiedTo size: PixelSize?) throws(DipperError) -> Int {
            guard let first = sizes.first else { throw ByteReader.broken }
            let copy = try sizes.count == 1 && first == size ? 0 : (size ?? first).byteCount(bytesPerPixel)
            // libaom has ten frames at most, and one with film grain; and tables.
            return blocks + (min(frames, 10) + 1) * frame + copy + 2 << 20
        }

        /// A sequence header (section 5.5). No frame that follows is larger than the size returned.
        mutating func readSequence(_ bytes: ByteReader) throws(DipperError) -> PixelSize {
            var bits = BitReader(bytes, from: 0, highestFirst: true)
            let profile = try bits.number(3)
            bits.position += 1
            let isReduced = try bits.flag()
            if isReduced { bits.position += 5 } else { try Self.skipTiming(&bits) }
            let (widthBits, heightBits) = (try bits.number(4) + 1, try bits.number(4) + 1)
            let size = PixelSize(width: try bits.number(widthBits) + 1, height: try bits.number(heightBits) + 1)
            if !isReduced {
                bits.position += try bits.flag() ? 14 : 7
                let hasOrder = try bits.flag()
                if hasOrder { bits.position += 2 }
                // Tools for screens are chosen by each frame, or always used, or never; so are whole motion vectors.
                var mayBeScreen = try bits.flag()
                if !mayBeScreen { mayBeScreen = try bits.flag() }
                if mayBeScreen { bits.position += try bits.flag() ? 0 : 1 }
                bits.position += hasOrder ? 6 : 3
            } else {
                bits.position += 6
            }
            // The last three bits: enlarging, CDEF and restoration.
            bits.position -= 3
            let tools = try bits.number(3)
            let hasGrain = try Self.hasGrain(bits, profile)
            isPlain = isPlain && !hasGrain && tools & 5 == 0
            // 4:2:0 or 4:4:4; the planes of colours are there in a picture of greys too.
            let quarters = (profile == 0 ? 6 : 12) * (try bits.flag() ? 2 : 1)
            sizes.insert(size)
            bytesPerPixel = max(bytesPerPixel, (quarters + 3) / 4)
            // As libaom 3.6 was seen to take: what is known of blocks, in areas of 128 by 128 pixels; and frames, with
            // a border, motion vectors and segments.
            blocks = max(blocks, (size.width + 127) / 128 * ((size.height + 127) / 128) << 14 * 49 / 4)
            frame = max(frame, (size.width + 128) * (size.height + 128) * (quarters + 1) / 4)
            return size
        }

        /// From the description of colours on (section 5.5.2).
        private static func hasGrain(_ start: BitReader, _ profile: Int) throws(DipperError) -> Bool {
            var bits = start
            let hasMore = try bits.flag()
            let hasMost = try profile == 2 && hasMore ? bits.flag() : false
            let isGrey = try profile == 1 ? false : bits.flag()
            let colors = try bits.flag() ? bits.number(24) : 0x02_02_02
            if isGrey {
                bits.position += 1
            } else if colors != 0x01_0D_00 {
                bits.position += 1
                var halves = (profile != 1, profile == 0)
                if hasMost {
                    halves.0 = try bits.flag()
                    halves.1 = try halves.0 ? bits.flag() : false
                }
                bits.position += halves == (true, true) ? 3 : 1
            } else {
                bits.position += 1
            }
            return try bits.flag()
        }

        /// Up to the size. Throws for a model of the decoder's buffers, which pictures do not have.
        private static func skipTiming(_ bits: inout BitReader) throws(DipperError) {
            if try bits.flag() {
                bits.position += 64
                if try bits.flag() {
                    var zeros = 0
                    while zeros < 32, try !bits.flag() { zeros += 1 }
                    bits.position += zeros < 32 ? zeros : 0
                }
                if try bits.flag() { throw ByteReader.broken }
            }
            let hasDelay = try bits.flag()
            for _ in 0...(try bits.number(5)) {
                bits.position += 12
                if try bits.number(5) > 7 { bits.position += 1 }
                if hasDelay { bits.position += try bits.flag() ? 4 : 0 }
            }
        }
    }
#endif
