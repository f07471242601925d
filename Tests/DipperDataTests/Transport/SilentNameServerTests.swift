import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite(
    "A name server that never answers, in a network of its own", .serialized,
    .enabled(if: Namespaces.missing == nil, Comment(rawValue: Namespaces.missing ?? "")), .timeLimit(.minutes(5)))
struct SilentNameServerTests {
    /// The system's resolver gives up after a minute, and the cache after its connection timeout. Calls that wait for
    /// either end in the order in which they began. If one call still waits after a later call was answered, the later
    /// call did not wait for the resolver.
    @Test("a call that is cancelled while its host is looked up holds up no other")
    func cancelled() async throws {
        let net = try Namespaces()
        defer { net.close() }
        // ip-netns(8) puts the files of this folder in the place of those in /etc.
        let settings = URL(fileURLWithPath: "/etc/netns/\(net.near)")
        try FileManager.default.createDirectory(at: settings, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: settings) }
        let text = "nameserver 203.0.113.9\noptions timeout:20 attempts:3\n"
        try Data(text.utf8).write(to: settings.appendingPathComponent("resolv.conf"))
        try Data("hosts: files dns\n".utf8).write(to: settings.appendingPathComponent("nsswitch.conf"))
        try net.ip(net.near, "route add default via 10.70.0.1")
        // What is sent there is dropped without a word.
        try net.ip(net.far, "route add blackhole 203.0.113.9/32")
        try net.serve()
        let folder = TemporaryFolder()
        let tool = try net.tool("dipper", ["batch", "--json", "--retries", "0", "--cache-dir", folder.url.path])
        tool.write("get http://hanging.test/x\nget http://hanging.test/y\nsleep 0.5\ncancel http://hanging.test/x\n")
        tool.write("get \(net.url("10.70.0.1", "/bytes/5000/a"))\n")
        var lines: [String] = []
        while lines.count < 2, let line = await tool.nextLine() { lines.append(line) }
        #expect(lines.contains { $0.contains("\"status\":200") && $0.contains("\"bytes\":5000") }, "\(lines)")
        #expect(lines.contains { $0.contains("hanging.test/x") && $0.contains("cancelled") }, "\(lines)")
        tool.write("cancel http://hanging.test/y\n")
        let last = try #require(await tool.nextLine())
        #expect(last.contains("hanging.test/y") && last.contains("cancelled"), "\(last)")
        tool.end()
    }
}
