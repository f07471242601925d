import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("The address of a resource", .timeLimit(.minutes(2)))
struct URLPartsTests {
    private static let servers = [
        "http://h", "https://H", "HTTP://a.b", "http://h:80", "https://h:443", "https://h:80", "http://h:0",
        "http://h:",
        "https://h:08080", "http://u:p@h", "https://@h", "http://%68%C3%a9", "http://[::1]", "http://[::A]:80", "x://H",
    ]
    private static let pieces = [
        "/", "/", "/", "/.", "/..", "./", "..", ".", "?", "?x=/../y", "%7E", "%2e", "%C3", "%c3", "%", "%4", "%zz", "a",
        "~", "b.jpg", "@", ":80",
    ]

    @Test("a text that is taken for an address is one, and an address has no other address")
    func random() {
        var random = SeededRandom(43)
        var plain = 0
        for _ in 0..<workload(50_000) {
            let path = (0..<Int.random(in: 0..<8, using: &random)).map { _ in Self.pieces.randomElement(using: &random)!
            }
            let text = Self.servers.randomElement(using: &random)! + "/" + path.joined()
            // A fragment is in no address, so that this text is always taken apart.
            let address = URLText.parts(of: text + "#").address
            let isAddress = Array(text.utf8).withUnsafeBufferPointer { URLText.isAddress($0) }
            let isRight =
                URLText.parts(of: text).address == address && URLText.parts(of: address + "#").address == address
                && (!isAddress || address == text)
            let url = URL(string: text)
            let isHostRight =
                url.map { URLText.host(of: $0) == $0.host(percentEncoded: false)?.lowercased() ?? "" } ?? true
            // Not an expectation for each, which would take longer than the rest.
            if !isRight || !isHostRight { Issue.record("\(text)") }
            plain += isAddress ? 1 : 0
        }
        #expect(plain > workload(500))
    }

    @Test(
        "the usual URLs are addresses already, so that a hit in memory does not take them apart",
        arguments: [
            "https://images.test/photos/2026/sunset-1920x1080.jpg?width=640&q=80", "http://127.0.0.1:8080/a",
            "http://h/%C3%A9/100%25/a%20b", "https://h/", "https://a_b.test:80/x.y/z~/?.",
        ])
    func usual(text: String) {
        #expect(Array(text.utf8).withUnsafeBufferPointer { URLText.isAddress($0) })
    }

    @Test("any bytes of a field become text that gives them back; UTF-8 stays as it is")
    func bytes() {
        var random = SeededRandom(44)
        for _ in 0..<workload(5_000) {
            let bytes = (0..<Int.random(in: 0..<6, using: &random)).map { _ in
                Bool.random(using: &random) ? UInt8.random(in: 0..<0xFF, using: &random) : UInt8(0xF4)
            }
            #expect(String(fieldBytes: bytes).fieldBytes == bytes)
        }
        // Valid UTF-8, but a character that stands for a byte.
        let tricky = Array("\u{10FEE9}é".utf8)
        #expect(String(fieldBytes: tricky).fieldBytes == tricky)
        for text in ["", "é", "\u{FFFD}", "\u{100000}😀"] {
            #expect(String(fieldBytes: text.utf8).fieldBytes == Array(text.utf8))
        }
        #expect(String(fieldBytes: "é".utf8) == "é" && String(fieldBytes: [0x61, 0xE9]) == "a\u{10FEE9}")
    }
}
