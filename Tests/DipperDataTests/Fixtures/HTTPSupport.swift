import DipperTesting
import Foundation
import TestSupport

@testable import DipperData

extension Date {
    /// As HTTP fields hold it (RFC 9110, section 5.6.7).
    var httpText: String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: self)
    }
}

extension ScriptedTransport.Step {
    /// An answer with this text.
    static func text(_ text: String, _ headers: HTTPHeaders = [:], status: Int = 200) -> Self {
        .response(TransferResponse(status: status, headers: headers, body: Data(text.utf8)))
    }
}

extension TestCache {
    /// Ends the cache, and opens another on its folder, on the same wall clock.
    func reopened(_ folder: TemporaryFolder) async -> TestCache {
        await cache.shutdown()
        return TestCache(folder: folder, date: date)
    }

    /// The fields of the requests for a URL so far.
    func requests(_ target: URL) -> [HTTPHeaders] { transport.transfers(of: target).map(\.request.headers) }

    /// Asks, and returns the text with where it came from.
    func ask(_ target: URL, _ headers: HTTPHeaders = [:]) async throws -> Told {
        try await Told(cache.getData(DataRequest(target).with(\.headers, headers)).response)
    }
}

/// What a task was answered with.
struct Told: Equatable, CustomStringConvertible {
    let text: String
    let source: ResponseSource

    init(_ text: String, _ source: ResponseSource) {
        self.text = text
        self.source = source
    }

    init(_ response: DataResponse) {
        self.init(String(decoding: response.data, as: UTF8.self), response.source)
    }

    var description: String { "\(text) from \(source)" }
}

extension HTTPHeaders {
    /// One more field.
    func adding(_ name: String, _ value: String) -> HTTPHeaders {
        var copy = self
        copy.append(name, value)
        return copy
    }
}

extension DataTask {
    /// What came of the refresh behind an answer that was out of date.
    var refreshed: Result<DataResponse, DipperError> {
        get async { await withCheckedContinuation { heard in onRevalidate { heard.resume(returning: $0) } } }
    }

    /// The end, told by a hook: all hooks before it have been called.
    var heard: Result<DataResponse, DipperError> {
        get async { await withCheckedContinuation { heard in onEnd { heard.resume(returning: $0) } } }
    }
}
