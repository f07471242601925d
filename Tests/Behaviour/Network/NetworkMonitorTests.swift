import Logging
import TestSupport
import Testing

@Suite("The monitor of the network", .timeLimit(.minutes(2)))
struct NetworkMonitorTests {
    @Test("where the kernel tells nothing every host is reachable, and the log says so once")
    func refused() async {
        // A process of its own, which can open no more files and thus no sockets.
        await #expect(processExitsWith: .success) {
            let lines = Box<[String]>([])
            let monitor = NetlinkMonitor(logger: .recording(lines: { line in lines.update { $0.append(line) } }))
            var files: [Int32] = []
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            limit.rlim_cur = 100
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            while case let file = dup(0), file >= 0 { files.append(file) }
            let isReachable = ["example.org", "10.99.99.99", "fd99::1"].allSatisfy { monitor.canReach($0) }
            let observation = monitor.observe {}
            let isStillReachable = monitor.canReach("example.org")
            for file in files { close(file) }
            #expect(isReachable && isStillReachable)
            #expect(
                lines.value.count == 1 && lines.value[0].contains("every host counts as reachable"), "\(lines.value)")
            withExtendedLifetime(observation) {}
        }
    }

    @Test("conditions are set by hand, and observers hear of a change once")
    func conditions() {
        let monitor = NetlinkMonitor()
        let calls = Box(0)
        let observation = monitor.observe { calls.update { $0 += 1 } }
        #expect(monitor.conditions == NetworkConditions())
        #expect(AlwaysReachable().conditions == NetworkConditions(isConstrained: false, isExpensive: false))
        for _ in 0..<2 { monitor.setConditions(NetworkConditions(isConstrained: true)) }
        #expect(monitor.conditions.isConstrained && !monitor.conditions.isExpensive)
        #expect(calls.value == 1)
        monitor.setConditions(NetworkConditions())
        #expect(calls.value == 2)
        withExtendedLifetime(observation) {}
    }
}
