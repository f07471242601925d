import TestSupport
import Testing

@Suite("Redaction", .timeLimit(.minutes(2)))
struct RedactionTests {
    @Test(
        "URLs and keys lose user information and the values of secret names, and nothing else",
        arguments: [
            // Nothing to hide.
            ("https://example.org/a.jpg?size=2&page=3#top", "https://example.org/a.jpg?size=2&page=3#top"),
            ("http://host:8080/photo@2x.png", "http://host:8080/photo@2x.png"),
            ("http://[::1]:8080/a@b", "http://[::1]:8080/a@b"),
            ("https://h/a?monkey=1&keyboard=2&author=3&codec=4", "https://h/a?monkey=1&keyboard=2&author=3&codec=4"),
            ("https://h/a?q=a%20b%2Fc&u=x%40y", "https://h/a?q=a%20b%2Fc&u=x%40y"),
            ("https://h/12:30?at=12:30", "https://h/12:30?at=12:30"),
            ("https://h/a?token=&size=2", "https://h/a?token=&size=2"), ("https://h/a?token", "https://h/a?token"),
            ("my own key", "my own key"), ("avatar:42", "avatar:42"), ("localhost:8080/a", "localhost:8080/a"),
            ("", ""), ("nonsense", "nonsense"), ("?", "?"), ("%", "%"), ("http://", "http://"),
            // User information.
            ("https://alice:pw@host/a", "https://***@host/a"), ("https://alice@host/a", "https://***@host/a"),
            ("https://a:p@ss:w@rd@host/a", "https://***@host/a"), ("//alice:pw@host/a", "//***@host/a"),
            ("http://alice:pw@[::1]:80/", "http://***@[::1]:80/"), ("http:/alice:pw@host/", "http:/***@host/"),
            (#"http:\\alice:pw@host\a"#, #"http:\\***@host\a"#), ("ftp://alice:pw@host", "ftp://***@host"),
            ("http://alice:p/w@host/a", "http://***@host/a"), ("http://alice:p?w@host/a", "http://***@host/a"),
            ("http://alice:p#w@host/a", "http://***@host/a"), ("alice:pw@host/a", "alice:***@host/a"),
            ("http://alice:pw%40host/", "http://***/"),
            ("thumb of http://alice:pw@host/a", "thumb of http://***@host/a"),
            ("http://proxy/http://alice:pw@host/a", "http://proxy/http://***@host/a"),
            ("http://h/?next=http://alice:pw@host/&size=2", "http://h/?next=http://***@host/&size=2"),
            ("http://h/?next=http%3A%2F%2Falice%3Apw%40host&size=2", "http://h/?next=***&size=2"),
            // Parameters.
            ("https://h/a?size=2&token=abc&page=3", "https://h/a?size=2&token=***&page=3"),
            ("https://h/a?ACCESS-Token=abc", "https://h/a?ACCESS-Token=***"),
            ("https://h/a?accessToken=abc&APIKey=abc", "https://h/a?accessToken=***&APIKey=***"),
            (
                "https://h/a?api_key=abc&x-api-key=abc&PassWord=abc",
                "https://h/a?api_key=***&x-api-key=***&PassWord=***"
            ),
            ("https://h/a?token=abc&token=def", "https://h/a?token=***&token=***"),
            ("https://h/a?key1=abc&user[password]=abc", "https://h/a?key1=***&user[password]=***"),
            ("https://h/a?size=2;token=abc", "https://h/a?size=2;token=***"),
            ("https://h/a?token=ab;cd=ef&size=2", "https://h/a?token=***&size=2"),
            ("https://h/a?token=ab/cd?ef=gh&size=2", "https://h/a?token=***&size=2"),
            ("https://h/a?%74oken=abc&%2574oken=abc", "https://h/a?%74oken=***&%2574oken=***"),
            ("https://h/a?token%3Dabc", "https://h/a?***"), ("https://h/a%3Ftoken%3Dabc/b", "https://h/***/b"),
            ("https://h/a?next=%2Fb%3Ftoken%3Dabc&size=2", "https://h/a?next=***&size=2"),
            ("https://h/a?next=%252Fb%253Ftoken%253Dabc&size=2", "https://h/a?next=***&size=2"),
            ("https://h/a?x=token=abc", "https://h/a?x=token=***"),
            ("https://h/a?a=1?token=abc", "https://h/a?a=1?token=***"),
            ("https://h/a&token=abc", "https://h/a&token=***"),
            ("https://h/a#access_token=abc&state=1", "https://h/a#access_token=***&state=1"),
            ("https://h/a#/b?token=abc", "https://h/a#/b?token=***"),
            ("https://h/a;jsessionid=abc/b?size=2", "https://h/a;jsessionid=***/b?size=2"),
            ("https://h/hdr=exp=1~hmac=abc/a.ts", "https://h/hdr=exp=1~hmac=***/a.ts"),
            (
                "https://b.example/a?X-Amz-Date=1&x-amz-meta=2&size=2",
                "https://b.example/a?X-Amz-Date=***&x-amz-meta=***&size=2"
            ),
            (
                "https://b.example/a?X-Goog-Signature=abc&AWSAccessKeyId=abc",
                "https://b.example/a?X-Goog-Signature=***&AWSAccessKeyId=***"
            ),
            (
                "https://a.example/a?sv=2024-01-01&se=2025&sig=a%2Bb%3D",
                "https://a.example/a?sv=2024-01-01&se=2025&sig=***"
            ),
            ("//host/a?token=abc", "//host/a?token=***"), ("/a?token=abc", "/a?token=***"),
            // Keys of the caller's own: a value ends with the line.
            ("user 7 token=abc/def ghi", "user 7 token=***"), ("Authorization: Bearer abc", "Authorization:***"),
            ("thumb|token:abc", "thumb|token:***"), (#"{"a":1,"password":"abc"}"#, #"{"a":1,"password":"***"#),
            ("thumb of https://h/a?token=abc&size=2", "thumb of https://h/a?token=***"),
        ] as [(String, String)])
    func table(text: String, redacted: String) {
        #expect(Redaction.standard.text(text) == redacted)
        #expect(Redaction.standard.text(redacted) == redacted, "redacting twice changes nothing more")
        #expect("\(CacheKey(text))" == redacted)
    }

    @Test("a key shows its first line: what follows are fields, variants, and names of what was made of it")
    func firstLine() {
        #expect(Redaction.standard.text("https://h/a\n6:accept:secret") == "https://h/a")
        #expect("\(CacheKey("https://h/a?token=abc\r\nX: secret"))" == "https://h/a?token=***")
        #expect(CacheKey("https://h/a?token=abc").string == "https://h/a?token=abc", "the key itself is whole")
    }

    @Test("further names are hidden, in every spelling, beside the standard ones")
    func furtherNames() {
        let redaction = Redaction(secretNames: ["sessionTicket", "pin", ""])
        let text = "https://h/a?session-ticket=1&my_session_ticket=2&PIN=3&token=4&ticket=5&pinned=6"
        #expect(
            redaction.text(text)
                == "https://h/a?session-ticket=***&my_session_ticket=***&PIN=***&token=***&ticket=5&pinned=6")
        #expect(Redaction.standard.text("https://h/a?pin=3") == "https://h/a?pin=3")
    }

    @Test("the URLs of a sentence are redacted, and the other words stay")
    func sentences() {
        let sentence = "cannot read 'https://alice:pw@h/a?token=abc' or\n  http://h/b?size=2: the key is gone "
        #expect(
            Redaction.standard.sentence(sentence)
                == "cannot read 'https://***@h/a?token=***' or\n  http://h/b?size=2: the key is gone ")
        #expect(Redaction.standard.sentence("SSL key: not found") == "SSL key: not found")
        let error = DipperError.transport.with(detail: "GET https://alice:pw@h/a?token=abc failed")
        #expect(error.detail == "GET https://***@h/a?token=*** failed")
    }

    @Test(
        "names are judged by whole words",
        arguments: [
            ("token", true), ("Authorization", true), ("Proxy-Authorization", true), ("Set-Cookie", true),
            ("X-Api-Key", true),
            ("APIKEY", true), ("idToken", true), ("oauth2", true), ("a.b[signature]", true), ("%70assword", true),
            ("Accept", false), ("User-Agent", false), ("monkey", false), ("authority", false), ("tokens", false),
            ("", false),
            ("signal", false), ("passenger", false), ("zipcodes", false),
        ])
    func names(name: String, isSecret: Bool) {
        #expect(Redaction.standard.isSecret(name) == isSecret)
    }

    @Test("however a URL is put together, its secrets do not appear, and its other values do", arguments: [1, 2, 3])
    func random(seed: UInt64) {
        var random = SeededRandom(seed)
        func pick(_ texts: [String]) -> String { texts[Int.random(in: texts.indices, using: &random)] }
        let names = [
            "token", "Signature", "api_key", "X-Amz-Credential", "user[password]", "%74oken", "sessionId", "auth",
        ]
        let alphabet = "ab:/@?&=;#%25374+ .\\[]\"'tokenkey\u{e9}".map { "\($0)" }
        let ends = ["", "/CANARY", "%2FCANARY", ":CANARY", "@CANARY", "=CANARY", "%"]
        for _ in 0..<workload(1_000) {
            var url = pick(["http://", "https://", "HTTPS://", "ftp://"])
            url += pick(["", "CANARY:CANARY@", "CANARY@", "a@CANARY:CANARY@b:CANARY@", ":CANARY@"])
            url += pick(["host", "[::1]:80", "host:8080", "xn--hst-sna"]) + "/path"
            var marker = "?"
            var kept: [String] = []
            for number in 0..<Int.random(in: 0...6, using: &random) {
                if Bool.random(using: &random) {
                    url += "\(marker)\(pick(names))=CANARY\(pick(ends))"
                } else {
                    kept.append("\(pick(["size", "page", "monkey", "w", "format"]))=kept\(number)")
                    url += marker + kept[kept.count - 1]
                }
                marker = "&"
            }
            let text = Redaction.standard.text(url)
            #expect(!text.contains("CANARY"), "\(url)")
            #expect(Redaction.standard.text(text) == text, "redacting twice changes nothing more")
            for value in kept { #expect(text.contains(value), "\(url)") }
            let any = (0..<Int.random(in: 0...40, using: &random)).map { _ in pick(alphabet) }.joined()
            let once = Redaction.standard.text(any)
            #expect(Redaction.standard.text(once) == once, "\(any)")
        }
    }

    @Test("a name is decoded up to four times; one that is encoded more often counts as secret")
    func encodedNames() {
        func encoded(_ name: String, levels: Int) -> String {
            (0..<levels).reduce(name) { name, _ in name.utf8.map { "%" + String($0, radix: 16) }.joined() }
        }
        #expect((0...4).allSatisfy { !Redaction.standard.isSecret(encoded("size", levels: $0)) })
        #expect((0...5).allSatisfy { Redaction.standard.isSecret(encoded("token", levels: $0)) })
        #expect(Redaction.standard.isSecret(encoded("size", levels: 5)))
        let long = "http://h/?" + String(repeating: "a%25b&token=x%3D&", count: 2_000)
        #expect(Redaction.standard.text(long).hasPrefix("http://h/?a%25b&token=***&a%25b"))
        // One level for every two digits.
        let deep = "%" + String(repeating: "25", count: 10_000)
        #expect(Redaction.standard.text("http://h/a?\(deep)=1").hasSuffix("=***"))
    }
}
