import FaultServer
import Foundation

// Starts a fault server for tests of command-line tools: `FaultServerTool [PORT]`. The port (0 or
// none: a free one) is printed on a line; the server runs until standard input ends.

guard let port = Int(CommandLine.arguments.dropFirst().first ?? "0"), (0...65_535).contains(port)
else {
    FileHandle.standardError.write(Data("usage: FaultServerTool [PORT]\n".utf8))
    exit(64)
}
let server = try await FaultServer.start(port: port)
// Written past stdio, so there is no buffer to flush.
FileHandle.standardOutput.write(Data("\(server.port)\n".utf8))
while readLine() != nil {}
await server.stop()
