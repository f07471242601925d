import ArgumentParser
import Dipper
import Foundation

/// A child process whose pictures helpers decode, and that prints the figures that ``Isolating`` names.
struct IsolationChild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "isolation-child", shouldDisplay: false)

    @Option var file: String
    @Option var count = 1
    /// Whether every tenth file kills its helper.
    @Flag var crashes = false
    @Flag var memory = false

    func run() async throws {
        let data = try Data(contentsOf: URL(fileURLWithPath: file))
        let numbers = try memory ? measureMemory(data) : decodeMany(data)
        print(numbers.map { "\($0)" }.joined(separator: " "))
    }

    private static func options(_ target: TargetSize? = nil) -> DecodeOptions {
        var options = DecodeOptions(target: target)
        options.isolation = .required
        return options
    }

    private func measureMemory(_ data: Data) throws -> [Double] {
        let before = try Machine.memory("VmHWM")
        let image = try CodecRegistry.bench.decode(data, Self.options(TargetSize(width: 400, height: 300)))
        keep(image.size)
        let peak = try Machine.memory("VmHWM") - before
        // A helper gives its memory back after a second without work.
        Thread.sleep(forTimeInterval: 2)
        // The first child is the process whose copies the helpers are.
        guard let helper = Self.children.last else { throw BenchError("there is no helper") }
        let lines = try String(contentsOfFile: "/proc/\(helper)/smaps_rollup", encoding: .utf8).split(separator: "\n")
        func megabytes(_ name: String) throws -> Double {
            let line = lines.first { $0.hasPrefix(name + ":") }?.split(whereSeparator: \.isWhitespace)
            guard let number = line?.dropFirst().first.flatMap({ Double($0) }) else { throw BenchError("no \(name)") }
            return number / 1_024
        }
        return [peak, try megabytes("Pss"), try megabytes("Rss")]
    }

    /// Seconds, wrong results, and descriptors, processes and MB that are left.
    private func decodeMany(_ data: Data) throws -> [Double] {
        let expected = try CodecRegistry.bench.decode(data)
        let before = try Self.left
        let files = (0..<count).map { crashes && $0 % 10 == 0 ? Data("CRASH \($0)".utf8) : data }
        // The first crash may begin what stays.
        for file in [data, Data("CRASH first".utf8), data] {
            keep(try? CodecRegistry.bench.decode(file, Self.options()))
        }
        let memory = try Machine.memory("VmRSS")
        var wrong = 0
        let time = seconds {
            for (index, file) in files.enumerated() {
                do throws(DipperError) {
                    let image = try CodecRegistry.bench.decode(file, Self.options())
                    // Comparing all pixels would be measured too.
                    if image.size != expected.size || image[200, 150] != expected[200, 150] { wrong += 1 }
                } catch {
                    if !(crashes && index % 10 == 0 && error == .decoderFailed) { wrong += 1 }
                }
            }
        }
        let more = try Machine.memory("VmRSS") - memory
        // Helpers end after half a minute without work.
        for _ in 0..<90 where !Self.children.isEmpty { Thread.sleep(forTimeInterval: 0.5) }
        return [time, Double(wrong)] + zip(try Self.left, before).map { $0 - $1 } + [more]
    }

    private static var left: [Double] {
        get throws {
            let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
            return [Double(descriptors), Double(children.count)]
        }
    }

    private static var children: [Substring] {
        let files = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
        return files.flatMap { thread in
            let list = try? String(contentsOfFile: "/proc/self/task/\(thread)/children", encoding: .utf8)
            return list?.split(whereSeparator: \.isWhitespace) ?? []
        }
    }
}

extension CodecRegistry {
    /// With files that kill their helper.
    static let bench: CodecRegistry = {
        var codecs = CodecRegistry.standard
        codecs.register(CrashDecoder())
        return codecs
    }()
}

// The name of a private type differs from process to process.
struct CrashDecoder: ImageDecoder {
    let format = ImageFormat(rawValue: "crash")

    func recognizes(_ start: Data) -> Bool { start.starts(with: "CRASH ".utf8) }
    func info(of data: Data) throws(DipperError) -> ImageInfo { ImageInfo(format: format) }
    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        preconditionFailure("This file crashes its decoder.")
    }
}
