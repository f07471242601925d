import FaultServer
import Foundation

// Starts a fault server for tests of command-line tools: `FaultServerTool [PORT]`. With the port 0 or without a port
// the server takes a free one. The tool prints the port on a line and runs until standard input ends.

guard let port = Int(CommandLine.arguments.dropFirst().first ?? "0"), (0...65_535).contains(port)
else {
    FileHandle.standardError.write(Data("usage: FaultServerTool [PORT]\n".utf8))
    exit(64)
}
let server = try await FaultServer.start(port: port)
// Written without stdio, which would keep the line in its buffer.
FileHandle.standardOutput.write(Data("\(server.port)\n".utf8))
while readLine() != nil {}
await server.stop()
