import TestSupport
import Testing

@Suite("Text becomes a URL, and spellings of one URL share an entry", .timeLimit(.minutes(2)))
struct URLTextTests {
    private let test = TestCache(folder: TemporaryFolder())

    // MARK: Text

    @Test(
        "text becomes a URL as in browsers",
        arguments: [
            ("http://h/a b%20c", "http://h/a%20b%20c"), ("http://h/%20é", "http://h/%20%C3%A9"),
            ("http://h/100%.png", "http://h/100%25.png"), ("http://h/%zz%4?%", "http://h/%25zz%254?%25"),
            ("http://h/a\n", "http://h/a"), ("\u{0}\t http://h/a\u{1F} ", "http://h/a"),
            ("ht\ntp://h/\ta\r\nb", "http://h/ab"), ("http:\\\\h\\a?b\\c#d\\e", "http://h/a?b%5Cc#d%5Ce"),
            ("http://h/a|^`?x=[1]&y={\"}#<3>", "http://h/a%7C%5E%60?x=%5B1%5D&y=%7B%22%7D#%3C3%3E"),
            ("http:/h/a", "http://h/a"), ("http:h/a", "http://h/a"), ("https:////h/a", "https://h/a"),
            ("http://u s:p@ss@h/a", "http://u%20s:p%40ss@h/a"), ("http://h/a#b#c d", "http://h/a#b%23c%20d"),
            ("http://bücher.test/ü%20 x", "http://xn--bcher-kva.test/%C3%BC%20%20x"),
            // What may stand in a URL stays as it was written.
            ("HTTP://H:80/%7e/../b?q='a'!$()*", "HTTP://H:80/%7e/../b?q='a'!$()*"),
            ("http://[::1]:8080/?a/b?c", "http://[::1]:8080/?a/b?c"), ("ftp://h\\x/a b", nil),
        ] as [(String, String?)])
    func text(text: String, expected: String?) {
        #expect(DataRequest(string: text).url?.absoluteString == expected)
        #expect(ImageRequest(string: text).data.url?.absoluteString == expected)
    }

    @Test("space around a URL in a list of URLs, or of a file, is no part of it")
    func space() async throws {
        let folder = TemporaryFolder()
        let file = try folder.place("here", at: "a b")
        #expect(try await test.cache.getData(" \(file.absoluteString)\n").value == Data("here".utf8))
        for text in ["http://h", "h/a", "http://", "http://a b/", "http://h:x/", "1:2", "http://%zz/", "\\\\h/a", " "] {
            test.transport.script(URL(string: "http://h")!, [.text("1")])
            let error = await test.cache.getData(text).error
            #expect(error == (text == "http://h" ? nil : .invalidURL), "\(text)")
        }
    }

    // MARK: Keys

    /// Spellings of one resource, the first of which is its key.
    private static let spellings = [
        [
            "http://host.test/", "http://host.test", "HTTP://Host.Test:80", "http://host.test:080/",
            "http://host.test:/",
            "http://host.test/.", "http://host.test/a/..", "http://%68ost.test/#top", "http://host.test/../%2e",
        ],
        ["https://h/", "https://h:443", "HTTPS://H"], ["http://h:443/", "http://H:0443"], ["https://h:80/"],
        ["http://h/?", "http://h?", "http://h/?#a"], ["http://h/?a", "http://h?a"],
        ["http://h/%C3%A9", "http://h/%c3%a9"], ["http://h/~a-_.Z", "http://h/%7Ea%2D%5f%2E%5A"],
        ["http://h/x", "http://h/y/../x", "http://h/./x", "http://h/y/%2E%2e/x", "http://h/../../x"],
        ["http://h/x/", "http://h/x/y/..", "http://h/x/."], ["http://h//x"],
        ["http://h/x?y/../z", "http://h:80/x?y/../z"],
        ["http://h/x?~", "http://h/x?%7e"], ["http://h/%2F", "http://h/%2f"], ["http://[::a]/", "http://[::A]:80"],
        ["http://h:0/"], ["http://h/%25zz"], ["http://h/a.b/c.d"], ["http://h.:8080/", "http://H.:8080"],
    ]

    @Test("all spellings of one resource have one key, and no other resource has it")
    func keys() throws {
        var found: Set<CacheKey> = []
        for group in Self.spellings {
            let keys = try Set(group.map { CacheKey(try #require(URL(string: $0))) })
            #expect(keys.map(\.string) == [group[0]], "\(group)")
            found.formUnion(keys)
            let withFields = try group.map { CacheKey(try #require(URL(string: $0)), headers: ["A": "1"]) }
            #expect(Set(withFields).count == 1 && found.isDisjoint(with: withFields))
        }
        #expect(found.count == Self.spellings.count)
    }

    @Test("what one spelling has stored, every other finds and removes; the server gets what was written")
    func oneEntry() async throws {
        let spellings = try Self.spellings[0].map { try #require(URL(string: $0)) }
        for asked in spellings {
            test.transport.script(asked, [.text("1", ["ETag": "\"1\"", "Cache-Control": "max-age=9"])])
            #expect(try await test.ask(asked) == "1 from network")
            #expect(test.transport.transfers.last?.request.url == asked)
            for other in spellings { #expect(try await test.ask(other) == "1 from memory", "\(other)") }
            let other = try #require(spellings.first { $0 != asked })
            // The validator of one spelling counts for the others.
            test.date.advance(by: 10)
            test.transport.script(other, [.status(304, ["Cache-Control": "max-age=9"])])
            #expect(try await test.ask(other) == "1 from revalidated")
            #expect(test.requests(other).last?["If-None-Match"] == "\"1\"")
            if asked == spellings[1] { test.cache.invalidate(other) } else { test.cache.removeData(for: other) }
            for each in spellings { #expect(!test.cache.hasData(for: each)) }
        }
        test.transport.script(spellings[2], [.text("2")])
        #expect(try await test.ask(spellings[2]) == "2 from network")
        let next = await test.reopened()
        #expect(try await next.ask(spellings[3]) == "2 from disk")
    }

    @Test("calls with two spellings share a fetch; a call for one URL cancels and moves those of the other")
    func oneFetch() async throws {
        let (first, second) = (URL(string: "http://host.test/%7Ea")!, URL(string: "HTTP://HOST.test:80/~a")!)
        let (task, transfer) = try await test.begin(first)
        let joined = test.cache.getData(second)
        #expect(test.cache.queueCounts.fastRunning == 1)
        test.cache.moveTaskToSlowQueue(second)
        #expect(test.cache.queueCounts.fastRunning == 0 && test.cache.queueCounts.slowRunning == 1)
        test.cache.cancel(second)
        for task in [task, joined] { #expect(await task.error == .cancelled) }
        try await transfer.wait { $0.isCancelled }
        #expect(test.transport.transfers.count == 1)
    }

    @Test("an interrupted body continues for another spelling")
    func resumed() async throws {
        let (first, second) = (URL(string: "http://host.test/%7Ea")!, URL(string: "http://host.test/~a")!)
        try await test.leave(Parts.beginning(30), of: first)
        #expect(try await test.nextFields(of: second)["Range"] == "bytes=30-")
    }

    @Test("after a change of a resource, the entries that its answer names in any spelling are gone")
    func named() async throws {
        let (a, b, c) = (url("a"), url("b c"), url("%C3%A9"))
        for target in [a, b, c] { try test.cache.addData(Data("1".utf8), for: target) }
        test.cache.invalidate(a, after: ["Location": "\\b c", "Content-Location": "HTTP://HOST.test:80/é"])
        for target in [a, b, c] { #expect(!test.cache.hasData(for: target), "\(target)") }
    }
}
