#if HEIC
    /// The pictures of a HEIC file that are put together from others: grids and overlays (ISO/IEC 23008-12, section 6.6.2).
    /// They have sizes of their own beside those that the file announces.
    struct HEICCompositions {
        private let file: ByteReader
        /// Where the data of each of these items has its size.
        private var places: [Int: Set<Int>] = [:]
        private var locations: [ByteReader] = []
        private var ownData: ByteReader?

        /// - Parameter meta: the `meta` box (ISO/IEC 14496-12, section 8.11).
        init(_ meta: ByteReader, in file: ByteReader) throws(DipperError) {
            self.file = file
            // The content begins with a version and flags.
            var boxes = BoxReader(meta, from: 4)
            while let box = try boxes.next() {
                switch box.type {
                case "iinf": try readItems(box.content)
                case "iloc": locations.append(box.content)
                case "idat" where ownData == nil: ownData = box.content
                default: break
                }
            }
        }

        private mutating func readItems(_ box: ByteReader) throws(DipperError) {
            var items = BoxReader(box, from: try box.u8(at: 0) == 0 ? 6 : 8)
            while let item = try items.next() {
                let version = try item.content.u8(at: 0)
                guard item.type == "infe", version > 1 else { continue }
                let width = version == 2 ? 2 : 4
                let place: Int
                switch try item.content.name(at: 6 + width) {
                case "grid": place = 4
                // After the colour of what nothing covers.
                case "iovl": place = 10
                default: continue
                }
                places[try item.content.number(at: 4, width), default: []].insert(place)
            }
        }

        /// The sizes of these pictures. Throws `DipperError.undecodable` if the data of one is in several parts.
        func sizes() throws(DipperError) -> [PixelSize] {
            if places.isEmpty { return [] }
            var sizes: [PixelSize] = []
            for box in locations {
                let (version, lengths) = (try box.u8(at: 0), try box.u16(at: 4))
                let (start, length, base) = (lengths >> 12, lengths >> 8 & 15, lengths >> 4 & 15)
                let index = version == 0 ? 0 : lengths & 15
                guard [start, length, base, index].allSatisfy([0, 4, 8].contains) else { throw ByteReader.broken }
                let width = version < 2 ? 2 : 4
                var offset = 6 + width
                // Each iteration reads bytes, so the end of the box bounds the loop.
                for _ in 0..<(try box.number(at: 6, width)) {
                    let item = try box.number(at: offset, width)
                    offset += width
                    let method = version == 0 ? 0 : try box.u16(at: offset) & 15
                    // A number of another file lies between.
                    offset += version == 0 ? 2 : 4
                    let first = try box.number(at: offset, base)
                    let count = try box.u16(at: offset + base)
                    offset += base + 2
                    if let places = places[item] {
                        guard count == 1, let source = method == 0 ? file : method == 1 ? ownData : nil else {
                            throw ByteReader.broken
                        }
                        let data = try source.part(from: first).part(from: box.number(at: offset + index, start))
                        for place in places { sizes.append(try Self.size(in: data, at: place)) }
                    }
                    offset += count * (index + start + length)
                }
            }
            return sizes
        }

        private static func size(in data: ByteReader, at place: Int) throws(DipperError) -> PixelSize {
            let width = try data.u8(at: 1) & 1 == 0 ? 2 : 4
            return PixelSize(
                width: try data.number(at: place, width), height: try data.number(at: place + width, width))
        }
    }
#endif
