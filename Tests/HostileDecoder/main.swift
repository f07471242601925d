import Dipper
import Foundation
import HostileDecoding
import Synchronization

var codecs = CodecRegistry.standard
codecs.register(plainDecoder)
codecs.register(HostileDecoder())
ImageCache.runDecoderIfAsked(codecs: codecs)

// As a program of its own, with itself as its helper:
var options = DecodeOptions()
options.isolation = .preferred

@Sendable func children() -> [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []).filter { name in
        let stat = (try? String(contentsOfFile: "/proc/\(name)/stat", encoding: .utf8)) ?? ""
        return stat.split(separator: ")").last?.split(separator: " ").dropFirst().first == "\(getpid())"
    }
}

switch CommandLine.arguments.dropFirst().first {
case "spin":
    // Decodes a file without end, until somebody kills it. Prints the numbers of the helper that does so, and of the
    // process whose copy it is.
    let isTold = Atomic(false)
    options.isCancelled = {
        if children().count == 2, !isTold.exchange(true, ordering: .relaxed) {
            FileHandle.standardOutput.write(Data("\(children().joined(separator: " "))\n".utf8))
        }
        return false
    }
    _ = try codecs.decode(Data("HOSTILE spin".utf8), options)
case "many":
    // Decodes many files, of which every tenth kills its helper, and prints what became of them and is left.
    let count = CommandLine.arguments.dropFirst(2).first.flatMap { Int($0) } ?? 0
    func attempt(_ text: String) -> String {
        do throws(DipperError) { return "\(try codecs.decode(Data(text.utf8), options)[0, 0])" } catch {
            return error.shortDescription
        }
    }
    func entries(_ folder: String) -> Int {
        ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).count
    }
    /// In MB.
    func memory() -> Int {
        let pages = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ")
        return (pages?.dropFirst().first.flatMap { Int($0) } ?? 0) * sysconf(Int32(_SC_PAGESIZE)) >> 20
    }
    for index in 0..<20 { _ = attempt("HOSTILE \(index % 10 == 0 ? "crash" : "none") first \(index)") }
    let (files, processes, bytes) = (entries("/proc/self/fd"), children().count, memory())
    var results: [String: Int] = [:]
    for index in 1...max(1, count) {
        results[attempt("HOSTILE \(index % 10 == 0 ? "crash" : "none") \(index)"), default: 0] += 1
    }
    for (result, count) in results.sorted(by: { $0.key < $1.key }) { print(result, count) }
    print("descriptors", entries("/proc/self/fd") - files, "children", children().count - processes)
    print("memory", memory() - bytes)
default: exit(64)
}
