import Testing

@testable import DipperData

@Suite("Addresses", .timeLimit(.minutes(5)))
struct IPAddressTests {
    /// First and last addresses of the blocks of IANA's special-purpose registries, of multicast and of what is
    /// reserved.
    @Test(
        "what is set aside is not public",
        arguments: [
            "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.0",
            "127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255",
            "192.0.0.0", "192.0.0.255", "192.0.2.0", "192.0.2.255", "192.88.99.1", "192.168.0.0", "192.168.255.255",
            "198.18.0.0", "198.19.255.255", "198.51.100.0", "198.51.100.255", "203.0.113.0", "203.0.113.255",
            "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255",
            "::", "::1", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "100::", "100::ffff:ffff:ffff:ffff",
            "100:0:0:1::", "2001::", "2001:1ff:ffff::", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::",
            "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::", "3fff:fff:ffff::", "5f00::", "5f00:ffff::", "fc00::",
            "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe80::", "fe80::1%eth0", "febf::1", "fec0::1", "feff::1",
            "ff00::", "ff02::1", "::ffff:0:7f00:1", "::ffff:0:8.8.8.8", "200::1", "1fff::1", "4000::1", "8000::1",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ])
    func special(text: String) throws {
        #expect(try #require(IPAddress(text)).isPublic == false)
    }

    @Test(
        "an address that stands for a special one is as special",
        arguments: ["127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.1.1", "100.64.0.1", "224.0.0.1", "0.0.0.0"])
    func embedded(text: String) throws {
        let parts = text.split(separator: ".").map { Int($0)! }
        let words = [parts[0] << 8 | parts[1], parts[2] << 8 | parts[3]].map { String($0, radix: 16) }
        let forms = [
            "::ffff:\(text)", "64:ff9b::\(text)", "2002:\(words[0]):\(words[1])::", "2002:\(words[0]):\(words[1]):1::2",
            "::\(text)",
        ]
        for form in forms { #expect(try #require(IPAddress(form)).isPublic == false, "\(form)") }
    }

    @Test(
        "ordinary addresses are public, also just beside the special ones",
        arguments: [
            "1.0.0.0", "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255",
            "192.0.1.0",
            "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
            "198.20.0.0", "198.51.99.255",
            "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255", "2001:200::", "2001:db7:ffff::1",
            "2001:db9::1", "2606:4700:4700::1111", "2a00:1450::1", "2400::1", "3ffe::1", "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8", "2002:808:808::",
        ])
    func ordinary(text: String) throws {
        let address = try #require(IPAddress(text))
        #expect(address.isPublic)
        #expect(!address.isLoopback)
    }

    @Test("loopback in all its forms")
    func loopback() throws {
        for text in ["127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1", "::ffff:7f12:3456"] {
            #expect(try #require(IPAddress(text)).isLoopback, "\(text)")
        }
        for text in ["128.0.0.1", "126.0.0.1", "::2", "::", "::ffff:128.0.0.1", "fe80::1", "0.0.0.0"] {
            #expect(try #require(IPAddress(text)).isLoopback == false, "\(text)")
        }
    }

    @Test(
        "what is not an address is none",
        arguments: [
            "", "1", "1.2.3", "1.2.3.4.5", "256.1.1.1", "0x7f.0.0.1", "127.0.0.1 ", " 127.0.0.1", "localhost",
            "1.2.3.4:80",
            "[::1]", ":", ":::", "1::2::3", "12345::", "::ffff:1.2.3", "2130706433", "%", "::g", "1.2.3.-4",
        ])
    func malformed(text: String) { #expect(IPAddress(text) == nil) }
}
