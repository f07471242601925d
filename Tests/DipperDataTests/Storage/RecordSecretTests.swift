import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Files of entries hold no cookies and no values of request fields", .timeLimit(.minutes(5)))
struct RecordSecretTests {
    private let secrets = ["c00kie", "t0ken", "l4nguage", "p4ssword"]
    private let target = URL(string: "http://user:p4ssword@host.test/a")!
    private let fields: HTTPHeaders = [
        "Set-Cookie": "session=c00kie", "set-cookie2": "session=c00kie", "ETag": "\"v\"",
        "Vary": "Accept-Language, X-Key",
        "Cache-Control": "max-age=100", "Content-Length": "20000",
    ]
    private var request: DataRequest {
        DataRequest(target).with(\.headers, ["X-Key": "t0ken", "Accept-Language": "l4nguage"])
    }

    /// Returns each file in the folder that contains one of the secrets, with the secret.
    private func found(_ folder: TemporaryFolder) throws -> [String] {
        try folder.files.flatMap { path in
            let bytes = try Data(contentsOf: folder.url.appendingPathComponent(path))
            return secrets.filter { bytes.firstRange(of: Data($0.utf8)) != nil }.map { "\(path): \($0)" }
        }
    }

    @Test("an entry in a file, a small one in the index, and the beginning of a body", arguments: [20_000, 100])
    func stored(size: Int) async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.retryPolicy = .never }
        let task = test.cache.getData(request)
        let transfer = try await test.transport.nextTransfer()
        var answer = fields
        answer["Content-Length"] = "\(size)"
        transfer.finish(with: Data(count: size), headers: answer)
        let response = try await task.response
        #expect(response.headers["Set-Cookie"] != nil, "the caller gets what the server said")
        let broken = test.cache.getData(request.with(\.cachePolicy, .ignoreCache))
        try await test.transport.nextTransfer().interrupt(with: .init(headers: fields, body: Data(count: 40)))
        _ = await broken.error
        await test.cache.synchronize()
        #expect(folder.files.contains { $0.hasPrefix("partial/") })
        #expect(try found(folder) == [])
        if size > 2_048 { #expect(test.cache.file(for: request.cacheKey) != nil) }
        #expect(test.cache.response(for: request)?.headers["Set-Cookie"] == nil)
        test.cache.clearMemory()
        let kept = try #require(test.cache.response(for: request))
        #expect(kept.headers["Set-Cookie"] == nil && kept.headers["ETag"] == "\"v\"" && kept.data.count == size)
        await test.cache.shutdown()
        #expect(try found(folder) == [])
    }
}
