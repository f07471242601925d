/// The primary item of a `meta` box (ISO/IEC 23008-12, section 6; ISO/IEC 14496-12, section 8.11).
struct HEIFItem {
    private var primary: Int?
    private var properties: ByteReader?
    private var associations: [ByteReader] = []
    private var references: ByteReader?

    /// Reads the properties of the primary item into a description.
    static func read(_ meta: ByteReader, _ info: inout ImageInfo) throws(DipperError) {
        var item = HEIFItem()
        try item.findBoxes(meta)
        guard let primary = item.primary, let properties = item.properties else { throw ByteReader.broken }
        let auxiliaries = try item.auxiliaries(of: primary)
        var own: Set<Int> = []
        var auxiliary: Set<Int> = []
        for associations in item.associations {
            try readAssociations(associations) { item, property in
                if item == primary { own.insert(property) }
                if auxiliaries.contains(item) { auxiliary.insert(property) }
            }
        }
        try HEIFProperties(own: own, auxiliary: auxiliary).read(properties, &info)
    }

    private mutating func findBoxes(_ meta: ByteReader) throws(DipperError) {
        // The content begins with a version and flags.
        var boxes = BoxReader(meta, from: 4)
        while let box = try boxes.next() {
            switch box.type {
            case "pitm":
                let isShort = try box.content.u8(at: 0) == 0
                primary = try isShort ? box.content.u16(at: 4) : box.content.u32(at: 4)
            case "iref": references = box.content
            case "iprp":
                var parts = BoxReader(box.content)
                while let part = try parts.next() {
                    if part.type == "ipco" { properties = part.content }
                    // There may be one box for each combination of version and flags.
                    if part.type == "ipma", associations.count < 8 { associations.append(part.content) }
                }
            default: break
            }
        }
    }

    /// Returns the items that are auxiliary to another, for example its transparency.
    private func auxiliaries(of primary: Int) throws(DipperError) -> Set<Int> {
        guard let references else { return [] }
        var items: Set<Int> = []
        let width = try references.u8(at: 0) == 0 ? 2 : 4
        func number(_ bytes: ByteReader, _ offset: Int) throws(DipperError) -> Int {
            try width == 2 ? bytes.u16(at: offset) : bytes.u32(at: offset)
        }
        var boxes = BoxReader(references, from: 4)
        while items.count < 16, let box = try boxes.next() {
            guard box.type == "auxl" else { continue }
            for index in 0..<(try box.content.u16(at: width)) {
                if try number(box.content, width + 2 + index * width) == primary {
                    items.insert(try number(box.content, 0))
                }
            }
        }
        return items
    }

    /// Calls a closure for each item and each of its properties, which are counted from 1.
    private static func readAssociations(
        _ box: ByteReader, _ body: (_ item: Int, _ property: Int) -> Void
    ) throws(DipperError) {
        let width = try box.u8(at: 0) < 1 ? 2 : 4
        let isLong = try box.u8(at: 3) & 1 != 0
        var offset = 8
        // Each iteration reads bytes, so the end of the box bounds the loop.
        for _ in 0..<(try box.u32(at: 4)) {
            let item = try width == 2 ? box.u16(at: offset) : box.u32(at: offset)
            let count = try box.u8(at: offset + width)
            offset += width + 1
            for _ in 0..<count {
                // The highest bit marks properties that a reader must support.
                let property = try isLong ? box.u16(at: offset) & 0x7FFF : box.u8(at: offset) & 0x7F
                offset += isLong ? 2 : 1
                body(item, property)
            }
        }
    }
}
