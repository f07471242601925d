// A cache that tests observe inside a network namespace. The program reads one command a line and prints one JSON
// object a line for each event, with a time in milliseconds ("ms") on the monotonic clock:
//
//   get URL, slow URL    starts an urgent get or a prefetch; prints "progress", "pause", "fail", "retry" and "end"
//   demote URL           moves the calls for the URL to the slow queue
//   reach HOST           prints "reach": whether the monitor says that the host can be reached
//   quit                 ends the program, as the end of the input does
//
// The program also prints "network" at each change that the monitor reports. The second form starts a FaultServer.
//
// usage: NetworkProbe FOLDER [--low-speed-time SECONDS]
//        NetworkProbe serve HOST

import DipperData
import FaultServer
import Foundation

let arguments = Array(CommandLine.arguments.dropFirst())
if arguments.count == 2, arguments[0] == "serve" {
    let server = try await FaultServer.start(host: arguments[1])
    FileHandle.standardOutput.write(Data("\(server.port)\n".utf8))
    while readLine() != nil {}
    await server.stop()
    exit(0)
}
guard arguments.count == 1 || arguments.count == 3 && arguments[1] == "--low-speed-time" else {
    FileHandle.standardError.write(Data("usage: NetworkProbe FOLDER [--low-speed-time SECONDS] | serve HOST\n".utf8))
    exit(64)
}
var configuration = DataCache.Configuration(directory: URL(fileURLWithPath: arguments[0]))
if arguments.count == 3, let seconds = Int(arguments[2]) { configuration.network.lowSpeedTime = .seconds(seconds) }

let printer = EventPrinter()
let monitor = NetlinkMonitor()
let observation = monitor.observe { printer.print("network") }
configuration.callbackQueue = .inPlace
configuration.networkMonitor = monitor
configuration.eventSinks = [Pauses(printer: printer)]
configuration.logger.logLevel = .critical
let cache = DataCache(configuration)
printer.print("ready")

func ask(_ text: String, isUrgent: Bool) {
    guard let url = URL(string: text) else { return printer.print("bad", ["url": text]) }
    follow(isUrgent ? cache.getData(url) : cache.slowGetData(url), text, printer)
}

commands: while let line = readLine() {
    let words = line.split(separator: " ").map(String.init)
    switch (words.first, words.count) {
    case ("get", 2): ask(words[1], isUrgent: true)
    case ("slow", 2): ask(words[1], isUrgent: false)
    case ("demote", 2):
        if let url = URL(string: words[1]) { cache.moveTaskToSlowQueue(url) }
    case ("reach", 2): printer.print("reach", ["host": words[1], "answer": monitor.canReach(words[1])])
    case ("quit", 1): break commands
    default: printer.print("bad", ["command": line])
    }
}
await cache.shutdown()
withExtendedLifetime(observation) {}
printer.flush()
