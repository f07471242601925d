import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Programs beside many open files", .timeLimit(.minutes(5)))
struct OpenFilesTests {
    @Test("a program runs and is waited for while three thousand files are open")
    func manyFiles() async {
        // In a process of its own: Foundation's Process, which other tests use, fails with so many.
        await #expect(processExitsWith: .success) {
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            limit.rlim_cur = min(limit.rlim_max, 4_096)
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            // They are made by Foundation's Process, so before the files are opened.
            let fake = try await FakeProgram("picture")
            let endless = try await FakeProgram("echo $$ >>$HERE/ids; exec sleep 1000")
            var opened = 0
            while opened < 3_000, open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 { opened += 1 }
            try #require(opened == 3_000 || limit.rlim_max < 3_100)
            let image = try await fake.frame().image
            #expect(image.pixels == Image.sample().pixels)
            // One that does not end by itself is ended and waited for.
            // On a busy machine it may not have come so far at first.
            var patience = Duration.milliseconds(200)
            while endless.lines("ids").isEmpty, patience < .seconds(30) {
                #expect(await endless.frame().with(\.timeLimit, patience).error == .undecodable)
                patience *= 2
            }
            let id = try #require(endless.lines("ids").first)
            #expect(!FileManager.default.fileExists(atPath: "/proc/\(id)"))
            withExtendedLifetime((fake, endless)) {}
        }
    }
}
