#if AVIF || HEIC
    import Foundation

    /// The items of a `meta` box, and their bytes (ISO/IEC 14496-12, section 8.11).
    struct HEIFItems {
        private let file: ByteReader
        private var kinds: [Int: Set<String>] = [:]
        private var locations: [ByteReader] = []
        private var ownData: ByteReader?
        /// The parts that may still be read. Items may share their bytes.
        private var parts: Int

        init(_ meta: ByteReader, in file: ByteReader) throws(DipperError) {
            self.file = file
            parts = 2 * file.available + 1 << 16
            // The content begins with a version and flags.
            var boxes = BoxReader(meta, from: 4)
            while let box = try boxes.next() {
                switch box.type {
                case "iinf": try readKinds(box.content)
                case "iloc": locations.append(box.content)
                case "idat" where ownData == nil: ownData = box.content
                default: break
                }
            }
        }

        private mutating func readKinds(_ box: ByteReader) throws(DipperError) {
            var items = BoxReader(box, from: try box.u8(at: 0) == 0 ? 6 : 8)
            while let item = try items.next() {
                let version = try item.content.u8(at: 0)
                guard item.type == "infe", version > 1 else { continue }
                let width = version == 2 ? 2 : 4
                let kind = try item.content.name(at: 6 + width)
                kinds[try item.content.number(at: 4, width), default: []].insert(kind)
            }
        }

        /// Whether no bytes of items are named.
        var isEmpty: Bool { locations.isEmpty }

        /// Hands the bytes of all items of some kinds to a closure. They are in the file, or beside its description (`iloc`,
        /// section 8.11.3).
        mutating func forEach(
            of wanted: Set<String>,
            _ body: (_ item: Int, _ kind: String, _ bytes: ByteReader) throws(DipperError) -> Void
        ) throws(DipperError) {
            for box in locations {
                let (version, widths, base) = (try box.u8(at: 0), try box.u8(at: 4), try box.u8(at: 5))
                guard version < 3 else { throw ByteReader.broken }
                let (width, index) = (version < 2 ? 2 : 4, version == 0 ? 0 : base & 15)
                var offset = 6
                func number(_ width: Int) throws(DipperError) -> Int {
                    defer { offset += width }
                    return try box.number(at: offset, width)
                }
                for _ in 0..<(try number(width)) {
                    let item = try number(width)
                    let method = try version == 0 ? 0 : number(2) & 15
                    // The number of another file.
                    _ = try number(2)
                    let (start, count) = (try number(base >> 4), try number(2))
                    var extents: [(start: Int, count: Int)] = []
                    // The numbers of items and extents are the file's; their widths may be zero.
                    parts -= 1 + count
                    guard parts > 0 else { throw ByteReader.broken }
                    for _ in 0..<count {
                        _ = try number(index)
                        extents.append((try number(widths >> 4), try number(widths & 15)))
                    }
                    let found = kinds[item, default: []].intersection(wanted)
                    if found.isEmpty { continue }
                    guard let source = method == 0 ? file : method == 1 ? ownData : nil else { throw ByteReader.broken }
                    let all = try extents.map { extent throws(DipperError) in
                        try source.part(from: start).part(at: extent.start, count: extent.count)
                    }
                    for kind in found { try join(all) { bytes throws(DipperError) in try body(item, kind, bytes) } }
                }
            }
        }

        private mutating func join(
            _ extents: [ByteReader], _ body: (ByteReader) throws(DipperError) -> Void
        ) throws(DipperError) {
            if extents.count == 1 { return try body(extents[0]) }
            var joined = Data()
            for extent in extents {
                parts -= extent.available
                // Decoders refuse an item that is larger than the file.
                guard parts > 0, joined.count + extent.available <= file.available else { throw ByteReader.broken }
                joined.append(contentsOf: extent.bytes)
            }
            if !extents.isEmpty { try joined.withBytes { bytes throws(DipperError) in try body(ByteReader(bytes)) } }
        }
    }
#endif
