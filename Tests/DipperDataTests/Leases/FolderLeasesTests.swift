import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("The leases of a folder", .timeLimit(.minutes(1)))
struct FolderLeasesTests {
    private let root = TemporaryFolder()

    private func join() throws -> FolderLeases { FolderLeases(try LeaseFile(in: Folder(path: root.path))) }

    private func take(_ leases: FolderLeases, _ key: String, since time: Date) async -> LeaseEvent? {
        let event = Box<LeaseEvent?>(nil)
        let claim = leases.claim(CacheKey(key)) { reported in event.update { $0 = reported } }
        await Self.onLoop {
            claim.take(.first, since: time)
            claim.end(.kept)
        }
        return event.value
    }

    @Loop private static func onLoop(_ body: @Sendable () -> Void) { body() }

    /// Returns when the loop has let go of what was posted before.
    private static func settle() async { for _ in 0..<3 { await onLoop {} } }

    @Test("after the others have left, the first key that was looked up before is looked up again")
    func left() async throws {
        let one = try join()
        var two: FolderLeases? = try join()
        let before = Date(timeIntervalSinceNow: 1)
        _ = await take(try #require(two), "a", since: before)
        two?.close()
        two = nil
        await Self.settle()
        #expect(await take(one, "a", since: before) == .taken(.first, mayBeKept: true, lifetime: nil))
        let now = Date(timeIntervalSinceNow: 1)
        #expect(await take(one, "b", since: now) == .taken(.first, mayBeKept: false, lifetime: nil))
        // Who comes and leaves between two looks has been there.
        try join().close()
        await Self.settle()
        #expect(await take(one, "b", since: now) == .taken(.first, mayBeKept: true, lifetime: nil))
        one.close()
    }

    @Test("leases that are closed give no place, and hold nothing open")
    func closed() async throws {
        var one: FolderLeases? = try join()
        weak let held = one
        _ = await take(try #require(one), "a", since: Date())
        one?.close()
        await Self.settle()
        #expect(await take(try #require(one), "a", since: Date()) == .unavailable)
        one = nil
        await Self.settle()
        #expect(held == nil)
    }

    @Test("a connection for which there is no descriptor waits, and the thread sleeps meanwhile")
    func descriptors() async throws {
        await #expect(processExitsWith: .success) {
            let root = TemporaryFolder()
            let leases = FolderLeases(try LeaseFile(in: Folder(path: root.path)))
            let claim = leases.claim(CacheKey("a")) { _ in }
            await FolderLeasesTests.onLoop { claim.take(.first, since: Date()) }
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            limit.rlim_cur = 200
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            let line = socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0)
            var files: [Int32] = []
            while case let file = dup(0), file >= 0 { files.append(file) }
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let path = Array((root.path + "/leases/0").utf8)
            try #require(path.count < 108)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path) }
            let size = socklen_t(MemoryLayout<sockaddr_un>.size)
            let connected = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(line, $0, size) }
            }
            #expect(connected == 0)
            // A message that nobody sends: the holder closes the line when it hears it.
            #expect(send(line, "no message", 10, 0) == 10)
            var end = pollfd(fd: line, events: Int16(POLLIN), revents: 0)
            let start = clock()
            #expect(poll(&end, 1, 400) == 0, "nobody can take the connection")
            #expect(clock() - start < 100_000, "the thread has not slept")
            for file in files { close(file) }
            #expect(poll(&end, 1, 20_000) == 1, "the connection is taken after a second")
        }
    }

    @Test("only file systems whose locks the kernel of this machine decides about have leases")
    func fileSystems() {
        for local in [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630] as [UInt32] {
            #expect(LeaseFile.isLocal(local))
        }
        // NFS, CIFS, 9p, FUSE, then GFS2, OCFS2, VirtualBox, BeeGFS, Coda, and one that nobody knows.
        let others: [UInt32] = [
            0x6969, 0xFF53_4D42, 0x0102_1997, 0x6573_5546, 0x0116_1970, 0x7461_636F, 0x786F_4256, 0x1983_0326,
            0x7375_7245, 0x1234_5678,
        ]
        for other in others { #expect(!LeaseFile.isLocal(other)) }
    }
}
