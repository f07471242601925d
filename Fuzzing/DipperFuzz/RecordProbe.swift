// `@testable` needs a debug build, as `make fuzz` makes it.
#if DEBUG
    import Foundation

    @testable import DipperData

    /// What holds of every record that a disk or another process gives.
    enum RecordProbe {
        private static let limit = 1 << 20

        static func run(_ data: Data) {
            check(RecordFormat().decode(data, limit: limit))
            // Few inputs have the right checksum, so each is also given one.
            check(data, Data("body".utf8), .identity)
            let split = data.startIndex + data.count / 3 * 2
            for coding in [StorageCompression.Coding.gzip, .zstd, nil] {
                check(data[..<split], Data(data[split...]), coding)
            }
        }

        private static func check(_ metadata: Data, _ body: Data, _ coding: StorageCompression.Coding?) {
            var trailer = Array(metadata)
            RecordFormat.Footer.append(to: &trailer, (body.count, body.digest), coding)
            check(RecordFormat().decode(body, Data(trailer), limit: limit))
            if let record = EntryRecord.decodeMetadata(metadata, isForClient: false) { check(.record(record)) }
        }

        private static func check(_ reading: RecordFormat.Reading) {
            guard let record = reading.record else { return }
            let info = record.value.info
            require(record.value.data.count <= limit, "no body is larger than allowed")
            require(info.stored.isFinite && info.freshness.generated.isFinite, "times of the past are finite")
            let response = DataResponse(record.value, source: .shared)
            for time in [-Double.infinity, 0, 1e9, .infinity] {
                require(response.age(at: Date(timeIntervalSince1970: time)) >= .zero, "an age is not negative")
            }
            _ = "\(response.generated) \(response.freshUntil as Any)"
            _ = record.lifetime.read(by: .init(accessExtension: .cacheTime), entered: info.stored, at: 1e9)
            guard let (body, trailer) = try? RecordFormat().encode(record),
                let again = RecordFormat().decode(body, Data(trailer)).record
            else { return require(false, "what has been read can be written and read") }
            require(
                again.key == record.key && again.value.data == record.value.data && again.metadata == record.metadata,
                "what has been read is written as it was")
        }
    }
#endif
