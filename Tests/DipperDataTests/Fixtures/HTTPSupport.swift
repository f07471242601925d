import DipperTesting
import Foundation
import TestSupport

@testable import DipperData

extension Date {
    /// The date in the format of HTTP fields (RFC 9110, section 5.6.7).
    var httpText: String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: self)
    }
}

extension ScriptedTransport.Step {
    /// Returns the step that answers with a text.
    static func text(_ text: String, _ headers: HTTPHeaders = [:], status: Int = 200) -> Self {
        .response(TransferResponse(status: status, headers: headers, body: Data(text.utf8)))
    }
}

extension TestCache {
    /// Shuts the cache down and returns another one with the same folder and wall clock.
    func reopened(_ folder: TemporaryFolder) async -> TestCache {
        await cache.shutdown()
        return TestCache(folder: folder, date: date)
    }

    /// Returns the header fields of each request for a URL so far.
    func requests(_ target: URL) -> [HTTPHeaders] { transport.transfers(of: target).map(\.request.headers) }

    /// Gets a URL and returns the text with its source.
    func ask(_ target: URL, _ headers: HTTPHeaders = [:]) async throws -> Told {
        try await Told(cache.getData(DataRequest(target).with(\.headers, headers)).response)
    }
}

/// The text and the source of a task's answer.
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
    /// Returns the fields with one more.
    func adding(_ name: String, _ value: String) -> HTTPHeaders {
        var copy = self
        copy.append(name, value)
        return copy
    }
}

extension DataTask {
    /// The result of the revalidation that follows a stale answer.
    var refreshed: Result<DataResponse, DipperError> {
        get async { await withCheckedContinuation { heard in onRevalidate { heard.resume(returning: $0) } } }
    }

    /// The result of the task, reported by a hook, so that all hooks added before have been called.
    var heard: Result<DataResponse, DipperError> {
        get async { await withCheckedContinuation { heard in onEnd { heard.resume(returning: $0) } } }
    }
}
