import Dipper
import DipperData
import DipperTesting
import Foundation
import TestSupport

extension TestImageCache {
    /// Scripts the answers for a URL: pictures as PNG files, one for each attempt.
    func script(_ url: URL, _ pictures: Image..., headers: HTTPHeaders = [:]) throws {
        transport.script(url, try pictures.map { try .image($0, headers: headers) })
    }

    /// Returns when the cache has dealt with everything that was asked of it before, by an urgent call for bytes that
    /// passes through it.
    func passThrough() async throws {
        let marker = url("marker/\(UUID().uuidString)")
        transport.script(marker, [.body(Data("x".utf8))])
        _ = try await cache.data.getData(marker).value
    }
}

extension Image {
    /// The pixels of the picture with inverted colours.
    var inverted: [UInt8] {
        get throws { try Inverting().process(self, ProcessingContext(limits: DecodeLimits())).pixels }
    }
}

/// A serializer for PNG that waits until the test lets it continue.
final class HeldSerializer: Sendable {
    private let door = Door()
    /// The number of pictures that have come to be encoded.
    let entered = Box(0)

    func open(_ count: Int = 1) { door.open(count) }
    func stayOpen() { door.stayOpen() }

    var serializer: ImageSerializer {
        ImageSerializer { [self] image, _, codecs throws(DipperError) in
            entered.update { $0 += 1 }
            door.pass()
            return try codecs.encode(image, as: .png)
        }
    }
}

/// A codec that changes nothing, and that a test can close, so that the disk writes nothing.
final class HeldCodec: RecordCodec {
    private struct State {
        var door: Door?
        var waiting = 0
    }

    let identifier = "held"
    private let state = Box(State())

    func close() { state.update { $0.door = Door() } }

    func open() {
        let door = state.update { exchange(&$0.door, with: nil) }
        door?.stayOpen()
    }

    /// Waits until a write has come to the closed codec.
    func waitForWrite() async throws { try await state.wait { $0.waiting > 0 } }

    func encode(_ record: Data) throws(DipperError) -> Data {
        let door = state.update { state in
            if state.door != nil { state.waiting += 1 }
            return state.door
        }
        door?.pass()
        return record
    }

    func decode(_ bytes: Data) throws(DipperError) -> Data { bytes }

    private func exchange(_ door: inout Door?, with new: Door?) -> Door? {
        defer { door = new }
        return door
    }
}

/// A decoder that records which bodies it decodes, and how many of them at once.
final class WatchedDecoder: ImageDecoder {
    private let decoder: any ImageDecoder
    private let door: Door?
    /// The bodies, as text, in the order in which their decodes began.
    let began = Box<[String]>([])
    private let running = Box((now: 0, most: 0))

    /// - Parameter isHeld: whether each decode waits until the test releases it.
    init(_ decoder: any ImageDecoder = PNGDecoder(), isHeld: Bool = false) {
        self.decoder = decoder
        door = isHeld ? Door() : nil
    }

    /// Creates a decoder that makes small pictures of any text.
    static func ofText(isHeld: Bool = false) -> WatchedDecoder {
        WatchedDecoder(CountingDecoder(making: PixelSize(width: 4, height: 3)), isHeld: isHeld)
    }

    /// The largest number of decodes that ran at once.
    var most: Int { running.value.most }
    func release(_ count: Int = 1) { door?.open(count) }
    func releaseAll() { door?.stayOpen() }

    var format: ImageFormat { decoder.format }
    func recognizes(_ start: Data) -> Bool { decoder.recognizes(start) }
    func info(of data: Data) throws(DipperError) -> ImageInfo { try decoder.info(of: data) }

    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        running.update { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
        defer { running.update { $0.now -= 1 } }
        began.update { $0.append(String(decoding: data.prefix(40), as: UTF8.self)) }
        door?.pass()
        return try decoder.decode(data, options)
    }
}

/// An object that tells when it is released.
final class ReleaseNotice: Sendable {
    private let isReleased: Box<Bool>

    init(_ isReleased: Box<Bool>) { self.isReleased = isReleased }
    deinit { isReleased.update { $0 = true } }
}

/// Random numbers that a seed decides.
struct SeededNumbers: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }
}

/// A progressive JPEG file.
enum ProgressivePhoto {
    /// The numbers of bytes after which a better preview can be shown.
    static let previewLengths: [Int] = {
        var parser = ProgressiveJPEG()
        return (1...file.count).filter { parser.preview(in: file.prefix($0)) != nil }
    }()

    static let file = Data(base64Encoded: base64) ?? Data()
    private static let base64 = """
        /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAQDAwMDAgQDAwMEBAQFBgoGBgUFBgwICQcKDgwPDg4MDQ0PERYTDxAVEQ0NExoTFRcYGRkZDxIb\
        HRsYHRYYGRj/2wBDAQQEBAYFBgsGBgsYEA0QGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBj/wgAR\
        CAArAD0DASIAAhEBAxEB/8QAGQAAAwEBAQAAAAAAAAAAAAAABAUGAwIB/8QAGQEAAgMBAAAAAAAAAAAAAAAAAgMAAQQF/9oADAMBAAIQAxAA\
        AAEfvZfzOoN1zuFrXWpFxbM2azUrthgNkeLm4Wrugj6QSR2F0V0MghmbdLlITBWBz1J45IBXaRnoR//EACAQAAICAQUBAQEAAAAAAAAAAAID\
        AQQABRESExQjMSL/2gAIAQEAAQUCuwfq59amTkhM1zCPRVmSyyRGrwjmoPEbaSY87VkFjUaq1nlhp7fRtaZgDA4Ea/Za2GbFeLi6MGjWx/jB\
        UVrU96Mq8FWM6eyqKVsLzSGWQys+GUk9hpLTWbI06tKdN5Sp1SM5l0rlHFVfa8HGF/dNdIcFUsP8Z+sGJyBEV0Rgo1gyGooAmv8A/8QAGxEA\
        AwEAAwEAAAAAAAAAAAAAAAECEQMhMUH/2gAIAQMBAT8Bjw6bwzCq1ki403pyQjfp4xV0VTwZ/8QAGxEBAQACAwEAAAAAAAAAAAAAAQACEQMS\
        IRP/2gAIAQIBAT8Bzy0ttDd29g8kZz6XHmsCGrH0vkLu6m7G/8QALBAAAgEEAQMCAwkAAAAAAAAAAQIAAxESISIxQWEEUUJSoRMgIzJxkbHR\
        8P/aAAgBAQAGPwIUU1rvMF6D6znvxMNcrY77zJGxvy/T/Wl3vLL31efljtdRb4oMqQHtvrKjH0vFDiWLdZSZAQE2ynr4j8uLX+sfl7EQ1c7A\
        fDNRDVF76u3S8XBgIyuNsciMsd+8xrKqK1PHTXjexlUuwcNpR8v9QpUrNbpefhetAHmZLLFMWHmXz1PtUtwj3+SJTucbftC1xjAaguYyEamS\
        8WHcTFhv+Y61gMW0VlSmtVh6cd+58Q8ep6QBVOLasYA33Ok0omRFzAVYjcQkXJE//8QAIRABAAICAwADAAMAAAAAAAAAAQARITFBUWFxgZGh\
        sfD/2gAIAQEAAT8htNRDGtV+i5nUFvz9zUheBjy3HKrtfTVyfqh7gbHUalWa8eR6M1FA8eQbFctrTuohxSbF+E8OpNj9RdlbPwwEqFO7WayE\
        tz/CiRWp1/DMPUuFZr5hFEOyDg8X0xlVxKpWTPc4nAX1Kq7CvG9vQmai5OIiPPqUCi0F8Sd/GMj6I3fgDiXGC/wYhkbWIqYEDbiElemK5lhD\
        2zVEcXE5dgAxHiBvSfqHaQwKP7grh3nQP+5hfFwX+iWBWCmS+ZYouphrkmUiLqyx4k+o1EGl4jYmuSGvBVcz/9oADAMBAAIAAwAAABDkuYY6\
        +juchm7/xAAbEQEBAQACAwAAAAAAAAAAAAABABEhMRBBUf/aAAgBAwEBPxAKS9rzaEcY+9WfHMbFepColUyUxKw+H//EABkRAQEBAQEBAAAA\
        AAAAAAAAAAEAESExQf/aAAgBAgEBPxBpHAxwfpIh2dxJNE+mexhEA9nVWm7WX//EACIQAQACAgIDAAIDAAAAAAAAAAERIQAxQVFhcYGRobHB\
        8P/aAAgBAQABPxAeqM2yXXnZilYCFgZti6PPnDSglVvRV8r7hYkGEAQG/TcY3eTmWIqBex3feDJVXhZIJTOseufEBSe3eSa/BkMyZkRA7c3h\
        0RuDyBA13zkoE+HQQB0wFl4gsrHk9lUGNnTkXA1nIrsC/wAuG4Z2kL2DeteceA9hUHrIYgowzkCQdkI7Rpct7wMiT24n+sSboYI0w0oJomUb\
        jNkKjBhYg7a7ywzYXQtD/Ll0UuoZs5AyZpV5nAK6ISZ0IesLmpMZTAYQA/2jJK6wfSlRjfTBz41GUo1MRL5D07xf1ATt6POcG1fXHvjB1yYW\
        D3jlL+ZJvKIe/W8bEItz6eMLEraHQMC/1jEUy8CQ0QPgYNB4MBDBLUZFazf3dhSKKOMg3KQreTjKuUF4mqSBfOWVusIUYsmoNmOAEmYY+ekF\
        L6dYTAwLDjlWHUsHef/Z
        """
}
