// A cache that tests observe inside a network namespace. The program reads one command a line and prints one JSON
// object a line for each event, with a time in milliseconds ("ms") on the monotonic clock:
//
//   get URL, slow URL    starts an urgent get or a prefetch; prints "progress", "fail", "retry" and "end"
//   demote URL           moves the calls for the URL to the slow queue
//   many N PREFIX        starts urgent gets of PREFIX0, PREFIX1, …
//   wait                 prints "idle" once all calls made so far have ended
//   reach HOST           prints "reach": whether all monitors say that the host can be reached
//   notifications        prints "notifications" with the number of changes that each monitor has reported
//   quit                 ends the program, as the end of the input does
//
// The program also prints "network" at each change that the first monitor reports. The second form starts a
// FaultServer.
//
// usage: NetworkProbe FOLDER [--low-speed-time SECONDS] [--monitors N]
//        NetworkProbe serve HOST

import DipperData
import FaultServer
import Foundation
import Synchronization

func usage() -> Never {
    FileHandle.standardError.write(
        Data(
            "usage: NetworkProbe FOLDER [--low-speed-time SECONDS] [--monitors N]\n       NetworkProbe serve HOST\n"
                .utf8))
    exit(64)
}

var arguments = Array(CommandLine.arguments.dropFirst())
if arguments.count == 2, arguments[0] == "serve" {
    let server = try await FaultServer.start(host: arguments[1])
    FileHandle.standardOutput.write(Data("\(server.port)\n".utf8))
    while readLine() != nil {}
    await server.stop()
    exit(0)
}
guard !arguments.isEmpty else { usage() }
var configuration = DataCache.Configuration(directory: URL(fileURLWithPath: arguments.removeFirst()))
var monitorCount = 1
while arguments.count >= 2, let number = Int(arguments[1]) {
    switch arguments[0] {
    case "--low-speed-time": configuration.network.lowSpeedTime = .seconds(number)
    case "--monitors": monitorCount = max(1, number)
    default: usage()
    }
    arguments.removeFirst(2)
}
guard arguments.isEmpty else { usage() }

let printer = EventPrinter()
let calls = Calls(printer)
let monitors = (0..<monitorCount).map { _ in NetlinkMonitor() }
let notifications = Mutex([Int](repeating: 0, count: monitorCount))
let observations = monitors.enumerated().map { number, monitor in
    monitor.observe {
        notifications.withLock { $0[number] += 1 }
        if number == 0 { printer.print("network") }
    }
}
configuration.callbackQueue = .inPlace
configuration.networkMonitor = monitors[0]
configuration.logger.logLevel = .critical
let cache = DataCache(configuration)
printer.print("ready")

func ask(_ text: String, isUrgent: Bool) {
    guard let url = URL(string: text) else { return printer.print("bad", ["url": text]) }
    calls.follow(isUrgent ? cache.getData(url) : cache.slowGetData(url), text)
}

commands: while let line = readLine() {
    let words = line.split(separator: " ").map(String.init)
    switch (words.first, words.count) {
    case ("get", 2): ask(words[1], isUrgent: true)
    case ("slow", 2): ask(words[1], isUrgent: false)
    case ("demote", 2):
        if let url = URL(string: words[1]) { cache.moveTaskToSlowQueue(url) }
    case ("many", 3):
        for number in 0..<(Int(words[1]) ?? 0) { ask(words[2] + String(number), isUrgent: true) }
    case ("wait", 1): calls.wait()
    case ("reach", 2):
        printer.print("reach", ["host": words[1], "answer": monitors.allSatisfy { $0.canReach(words[1]) }])
    case ("notifications", 1): printer.print("notifications", ["counts": notifications.withLock { $0 }])
    case ("quit", 1): break commands
    default: printer.print("bad", ["command": line])
    }
}
await cache.shutdown()
withExtendedLifetime(observations) {}
printer.flush()
