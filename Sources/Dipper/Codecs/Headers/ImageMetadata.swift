import Foundation

/// The properties of a picture that a camera or an editor stored beside it, in Exif or XMP data.
///
/// ```swift
/// let metadata = try ImageInfo(bytes).metadata
/// if let date = metadata.date?.date { print(metadata.camera ?? "a camera", date) }
/// ```
///
/// They are read from JPEG, PNG, WebP and TIFF files. Where Exif and XMP differ, Exif counts. Encoders write none of
/// them: a picture that is made smaller does not tell where it was taken.
public struct ImageMetadata: Sendable, Hashable {
    /// A place on Earth.
    public struct Place: Sendable, Hashable {
        /// The degrees north of the equator, from -90 to 90.
        public var latitude: Double
        /// The degrees east of Greenwich, from -180 to 180.
        public var longitude: Double
        /// The metres above sea level.
        public var altitude: Double?

        /// Creates a place from its degrees, and the metres above sea level.
        public init(latitude: Double, longitude: Double, altitude: Double? = nil) {
            (self.latitude, self.longitude, self.altitude) = (latitude, longitude, altitude)
        }
    }

    /// The orientation of the stored picture, as the data state it.
    public var orientation: Image.Orientation?
    /// The date and time when the picture was taken, in the Gregorian calendar. The time zone is `nil` if the file does
    /// not state it, as most files of cameras; `date` then takes the present one of the system.
    public var date: DateComponents?
    /// The place where the picture was taken.
    public var place: Place?
    /// The maker and the model of the camera, for example `FUJIFILM X100V`.
    public var camera: String?

    /// Creates metadata that state nothing.
    public init() {}

    /// Adds what Exif data state (Exif 2.32, sections 4.6.4 to 4.6.6).
    mutating func add(exif: ByteReader) {
        if let directory = TIFFDirectory(exif: exif) { add(directory) }
    }

    mutating func add(_ directory: TIFFDirectory) {
        orientation = orientation ?? directory[.orientation].flatMap { Image.Orientation(rawValue: $0) }
        addCamera(directory.text(.make), directory.text(.model))
        let exif = directory.directory(.exif)
        if date == nil, let text = exif?.text(.dateTaken) ?? directory.text(.dateChanged) {
            date = Self.date(text + (exif?.text(.zoneTaken) ?? ""))
        }
        guard place == nil, let gps = directory.directory(.gps), let latitude = gps.fractions(.latitude, count: 3),
            let longitude = gps.fractions(.longitude, count: 3)
        else { return }
        func degrees(_ parts: [Double], isNegative: Bool) -> Double {
            (parts[0] + parts[1] / 60 + parts[2] / 3600) * (isNegative ? -1 : 1)
        }
        setPlace(
            degrees(latitude, isNegative: gps.text(.latitudeSide) == "S"),
            degrees(longitude, isNegative: gps.text(.longitudeSide) == "W"))
        place?.altitude = gps.fractions(.altitude, count: 1).map { $0[0] * (gps[.altitudeSide] == 1 ? -1 : 1) }
    }

    /// Adds what an XMP packet states (ISO 16684-1), by the usual names of its properties.
    mutating func add(xmp: UnsafeRawBufferPointer) {
        // As much as a JPEG file holds.
        let packet = XMPPacket(bytes: UnsafeRawBufferPointer(rebasing: xmp.prefix(1 << 16)))
        if orientation == nil {
            orientation = packet["tiff:Orientation"].flatMap { Int($0) }.flatMap { Image.Orientation(rawValue: $0) }
        }
        if camera == nil { addCamera(packet["tiff:Make"], packet["tiff:Model"]) }
        let dates = ["exif:DateTimeOriginal", "photoshop:DateCreated", "xmp:CreateDate"]
        if date == nil { date = dates.lazy.compactMap { packet[$0] }.first.flatMap(Self.date) }
        if place == nil, let latitude = packet["exif:GPSLatitude"].flatMap(Self.degrees),
            let longitude = packet["exif:GPSLongitude"].flatMap(Self.degrees)
        {
            setPlace(latitude, longitude)
        }
    }

    private mutating func addCamera(_ maker: String?, _ model: String?) {
        guard camera == nil else { return }
        // Some makers begin the model with their name.
        let isNamed = maker.flatMap { maker in model.map { $0.hasPrefix(maker) } } ?? false
        let names = (isNamed ? [model] : [maker, model]).compactMap(\.self)
        if !names.isEmpty { camera = names.joined(separator: " ") }
    }

    private mutating func setPlace(_ latitude: Double, _ longitude: Double) {
        guard abs(latitude) <= 90, abs(longitude) <= 180 else { return }
        place = Place(latitude: latitude, longitude: longitude)
    }

    private static let calendar = Calendar(identifier: .gregorian)

    /// Reads `2026:05:17 12:34:56` of Exif and `2026-05-17T12:34:56+02:00` of XMP. `nil` if it is no date, such as the
    /// spaces of a camera that does not know the time.
    private static func date(_ text: String) -> DateComponents? {
        let text = Array(text.utf8)
        func number(_ place: Int, _ count: Int, _ range: ClosedRange<Int>) -> Int? {
            guard place + count <= text.count else { return nil }
            let digits = text[place..<place + count]
            guard digits.allSatisfy({ (48...57).contains($0) }) else { return nil }
            let number = digits.reduce(0) { $0 * 10 + Int($1) - 48 }
            return range.contains(number) ? number : nil
        }
        guard let year = number(0, 4, 1...9999), let month = number(5, 2, 1...12), let day = number(8, 2, 1...31)
        else { return nil }
        let time = [number(11, 2, 0...23), number(14, 2, 0...59), number(17, 2, 0...60)]
        var zone = text.dropFirst(16).contains(UInt8(ascii: "Z")) ? TimeZone(secondsFromGMT: 0) : nil
        let signs = [UInt8(ascii: "+"), UInt8(ascii: "-")]
        if let sign = text.indices.dropFirst(16).first(where: { signs.contains(text[$0]) }),
            let hours = number(sign + 1, 2, 0...14), let minutes = number(sign + 4, 2, 0...59)
        {
            zone = TimeZone(secondsFromGMT: (hours * 60 + minutes) * (text[sign] == signs[0] ? 60 : -60))
        }
        return DateComponents(
            calendar: calendar, timeZone: zone, year: year, month: month, day: day, hour: time[0], minute: time[1],
            second: time[2])
    }

    /// Reads `48,12,30N` and `48,12.5N`.
    private static func degrees(_ text: String) -> Double? {
        guard let side = text.last, "NSEW".contains(side) else { return nil }
        let parts = text.dropLast().split(separator: ",").map { Double($0) ?? .nan }
        guard (1...3).contains(parts.count), parts.allSatisfy(\.isFinite) else { return nil }
        let degrees = zip(parts, [1.0, 60, 3600]).reduce(0) { $0 + $1.0 / $1.1 }
        return "SW".contains(side) ? -degrees : degrees
    }
}

/// The text of an XMP packet, of which single properties are looked up by name.
private struct XMPPacket {
    let bytes: UnsafeRawBufferPointer

    /// In bytes. No property that is looked up is longer.
    private static let longest = 256

    /// The value of an attribute, `name="value"`, or of an element, `<name>value</name>`.
    subscript(name: String) -> String? {
        let name = Array(name.utf8)
        var place = 0
        while let start = end(of: name, from: place) {
            place = start
            var value = bytes[start...].prefix(Self.longest).drop { " \t\r\n".utf8.contains($0) }
            guard let first = value.popFirst() else { return nil }
            var end = UInt8(ascii: "<")
            if first == UInt8(ascii: "=") {
                value = value.drop { " \t\r\n".utf8.contains($0) }
                guard let quote = value.popFirst(), "\"'".utf8.contains(quote) else { continue }
                end = quote
            } else if first != UInt8(ascii: ">") {
                continue
            }
            guard let length = value.firstIndex(of: end) else { continue }
            let text = String(decoding: value[..<length], as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
            if !text.isEmpty { return text }
        }
        return nil
    }

    private func end(of name: [UInt8], from start: Int) -> Int? {
        guard let base = bytes.baseAddress else { return nil }
        var start = start
        while start + name.count <= bytes.count,
            let found = memchr(base + start, Int32(name[0]), bytes.count - name.count - start + 1)
        {
            start = UnsafeRawPointer(found) - base + 1
            if memcmp(found, name, name.count) == 0 { return start - 1 + name.count }
        }
        return nil
    }
}
