import Foundation
import TortureSupport

// The states that a power cut can leave on disk.
//
// The recording is cut after one of its steps. Everything flushed before the cut is on disk:
//
//   - for a file, all writes and truncations before its last `fsync` or `fdatasync`, and its size;
//   - for a folder, all changes of its entries (files and folders created, moved in or out, removed) before the last
//     `fsync` of that folder. Flushing a file does not flush its name, and flushing a folder does not flush the folders
//     in it. A rename is on disk completely or not at all, as journaling file systems promise; it is certainly on disk
//     if one of its two folders was flushed afterwards.
//
// Of the steps that were not flushed, any subset may be on disk:
//
//   - each write may be lost, complete, or torn: any of its 512-byte sectors may be on disk, and the others keep their
//     old bytes; a sector that was never written reads as zeros, never as bytes of another file;
//   - each truncation may be lost even if later writes are on disk;
//   - a file may already have the size of a later write whose bytes are lost; the missing bytes are zeros;
//   - changes of folders may be on disk up to some moment, as with a journal, or, since nothing promises that order, in
//     any combination. A change that depends on a lost change is lost too: everything in a folder that was never
//     created, the removal of a name that was never there.
//
// `*-shm` is memory shared by SQLite's connections. No connection survives a power cut, so the file is missing or
// empty.

/// The files and folders on disk after one power cut, made from a recording and a seed.
struct DiskState {
    /// The shares of unflushed changes that are on disk, of which each state has one for names and one for bytes.
    private static let shares = [1, 0, 0.9, 0.1, 0.5]

    private static let sector = 512

    let cut: Int
    /// The entries of each folder, by its number; the numbers of files are not in it.
    private var entries: [Int: [String: Int]] = [1: [:]]
    private var contents: [Int: [UInt8]] = [:]
    private var longest: [Int: Int] = [:]
    private var random: SeededRandom

    /// Makes one of the states that a cut after `cut` steps can leave.
    init(_ recording: Recording, cut: Int, seed: UInt64) {
        self.cut = cut
        random = SeededRandom(seed)
        let steps = recording.steps[..<cut]
        var flushed: [Int: Int] = [:]
        for (index, step) in steps.enumerated() {
            if case .flush(let object) = step { flushed[object] = index }
        }
        let names = Self.shares[random.below(Self.shares.count)]
        let bytes = Self.shares[random.below(Self.shares.count)]
        // A journal keeps all changes of names up to some moment.
        let journal = random.oneIn(2) ? Int.random(in: (flushed.values.max() ?? 0)...cut, using: &random) : nil
        for (index, step) in steps.enumerated() {
            if let file = step.writtenFile {
                change(file, step, isFlushed: index < flushed[file, default: -1], bytes)
            } else if !step.folders.isEmpty {
                let isFlushed = step.folders.contains { index < flushed[$0, default: -1] }
                if isFlushed || journal.map({ index < $0 }) ?? random.chance(names) { change(step) }
            }
        }
        for (file, size) in longest.sorted(by: { $0.key < $1.key }) where size > contents[file, default: []].count {
            if random.oneIn(4) { resize(file, size) }
        }
    }

    init(whole recording: Recording) {
        cut = recording.steps.count
        random = SeededRandom(0)
        for step in recording.steps {
            if let file = step.writtenFile { change(file, step, isFlushed: true, 1) } else { change(step) }
        }
    }

    // MARK: Names

    private mutating func change(_ step: Step) {
        switch step {
        case .create(let object, let place): entries[place.folder, default: [:]][place.name] = object
        case .makeFolder(let object, let place):
            entries[place.folder, default: [:]][place.name] = object
            if entries[object] == nil { entries[object] = [:] }
        case .unlink(let object, let place): remove(object, place)
        case .removeFolder(let object, let place):
            if entries[object, default: [:]].isEmpty { remove(object, place) }
        case .rename(let object, let from, let to):
            remove(object, from)
            entries[to.folder, default: [:]][to.name] = object
        default: break
        }
    }

    /// Removes a name, unless another object has taken it in the meantime.
    private mutating func remove(_ object: Int, _ place: Step.Place) {
        if entries[place.folder]?[place.name] == object { entries[place.folder]?[place.name] = nil }
    }

    // MARK: Bytes

    private mutating func change(_ file: Int, _ step: Step, isFlushed: Bool, _ share: Double) {
        switch step {
        case .truncate(_, let size):
            if isFlushed || random.chance(share) { resize(file, size) }
        case .write(_, let offset, let bytes):
            let end = offset + bytes.count
            if !isFlushed { longest[file] = max(longest[file, default: 0], end) }
            if isFlushed {
                longest[file] = nil
                put(file, offset, bytes)
            } else if random.oneIn(3) {
                tear(file, offset, bytes)
            } else if random.chance(share) {
                put(file, offset, bytes)
            }
        default: break
        }
    }

    private mutating func resize(_ file: Int, _ size: Int) {
        let count = contents[file, default: []].count
        if size < count {
            contents[file]?.removeLast(count - size)
        } else {
            contents[file, default: []].append(contentsOf: [UInt8](repeating: 0, count: size - count))
        }
    }

    private mutating func put(_ file: Int, _ offset: Int, _ bytes: Data) {
        let end = offset + bytes.count
        if contents[file, default: []].count < end { resize(file, end) }
        contents[file]?.replaceSubrange(offset..<end, with: bytes)
    }

    /// Writes a random subset of the sectors that a write touches.
    private mutating func tear(_ file: Int, _ offset: Int, _ bytes: Data) {
        var position = offset
        let share = Double.random(in: 0...1, using: &random)
        while position < offset + bytes.count {
            let end = min(offset + bytes.count, (position / Self.sector + 1) * Self.sector)
            if random.chance(share) {
                let start = bytes.startIndex - offset
                put(file, position, bytes[(start + position)..<(start + end)])
            }
            position = end
        }
    }

    // MARK: On disk

    /// All folders and files by path, each folder before what is in it, with the bytes of the files.
    private var tree: [(path: String, bytes: [UInt8]?)] {
        var found: [(path: String, bytes: [UInt8]?)] = []
        func walk(_ number: Int, _ path: String) {
            for (name, number) in entries[number, default: [:]].sorted(by: { $0.key < $1.key }) {
                let isFolder = entries[number] != nil
                found.append((path + name, isFolder ? nil : contents[number, default: []]))
                if isFolder { walk(number, path + name + "/") }
            }
        }
        walk(1, "")
        return found
    }

    func write(into folder: URL) throws {
        var random = random
        for (name, bytes) in tree {
            let path = folder.path + "/" + name
            let isShared = name.hasSuffix("-shm")
            if isShared, random.oneIn(2) { continue }
            let isMade =
                if let bytes {
                    FileManager.default.createFile(atPath: path, contents: isShared ? Data() : Data(bytes))
                        && chmod(path, 0o600) == 0
                } else { mkdir(path, 0o700) == 0 }
            if !isMade { throw CocoaError(.fileWriteUnknown) }
        }
    }

    /// The contents of the files by path, without the `*-shm` files, to be compared with the real folder.
    var files: [String: [UInt8]] {
        var files: [String: [UInt8]] = [:]
        for (path, bytes) in tree where !path.hasSuffix("-shm") { files[path] = bytes }
        return files
    }
}
