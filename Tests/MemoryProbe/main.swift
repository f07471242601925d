// A cache that tests observe inside control groups, with the kernel's monitor of memory pressure at shorter intervals.
// The program reads one command a line:
//
//   take MEGABYTES       allocates that many MiB, after releasing the memory of the previous command
//   thrash FILE          reads a file again and again, in memory that is too small for it, until the next command
//   quit                 ends the program, as the end of the input does
//
// The program prints "LEVEL BYTES" at the start and at each change: the level of memory pressure, and the size of the
// cache's memory tier. It adds sixteen entries of 64 KiB to the cache whenever the level is normal.
//
// usage: MemoryProbe

import DipperData
import Foundation
import Logging
import Synchronization

let monitor = KernelMemoryPressure(
    logger: Logger(label: "probe"),
    PressureTiming(calm: .milliseconds(500), period: .milliseconds(200), spacing: .milliseconds(50)))
var configuration = DataCache.Configuration()
configuration.memoryLimit = 2 << 20
configuration.memoryPressure = monitor
let cache = DataCache(configuration)

@Sendable func fill() {
    for number in 0..<16 {
        guard let url = URL(string: "http://probe.test/\(number)") else { return }
        try? cache.addData(Data(repeating: 1, count: 64 << 10), for: url)
    }
}

@Sendable func tell(_ level: MemoryPressure) {
    FileHandle.standardOutput.write(Data("\(level.rawValue) \(cache.memorySize)\n".utf8))
}

fill()
tell(.normal)
let told = Mutex(MemoryPressure.normal)
let observation = cache.observeMemoryPressure { level in
    let isNew = told.withLock { told in
        defer { told = level }
        return told != level
    }
    if level == .normal { fill() }
    if isNew { tell(level) }
}

/// A thread that reads every page of a file again and again until ``stop()``.
final class Thrasher: Sendable {
    private let isStopped = Atomic(false)

    init(_ path: String) {
        Thread { [self] in
            let descriptor = open(path, O_RDONLY)
            let size = Int(lseek(descriptor, 0, SEEK_END))
            guard let start = mmap(nil, size, PROT_READ, MAP_SHARED, descriptor, 0), start != MAP_FAILED else { return }
            var sum: UInt8 = 0
            while !isStopped.load(ordering: .relaxed) {
                for page in stride(from: 0, to: size, by: 4096) {
                    sum &+= start.load(fromByteOffset: page, as: UInt8.self)
                    if isStopped.load(ordering: .relaxed) { break }
                }
            }
            munmap(start, size)
            close(descriptor)
        }.start()
    }

    func stop() { isStopped.store(true, ordering: .relaxed) }
}

var taken: UnsafeMutableRawBufferPointer?
var thrasher: Thrasher?
while let line = readLine() {
    let words = line.split(separator: " ", maxSplits: 1)
    thrasher?.stop()
    thrasher = nil
    switch words.first {
    case "take":
        if let taken { munmap(taken.baseAddress, taken.count) }
        taken = nil
        let size = (words.count > 1 ? Int(words[1]) ?? 0 : 0) << 20
        guard size > 0 else { continue }
        guard let start = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            start != MAP_FAILED
        else { exit(1) }
        memset(start, 1, size)
        taken = UnsafeMutableRawBufferPointer(start: start, count: size)
    case "thrash": if words.count > 1 { thrasher = Thrasher(String(words[1])) }
    default: exit(0)
    }
}
