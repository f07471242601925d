import Foundation
import TortureSupport

// What a power cut may leave.
//
// The recording is cut behind one of its steps. What was flushed by then is there:
//
//   - of a file, all writes and truncations before its last `fsync` or `fdatasync`; its size with them;
//   - of a folder, all that was done to its entries (files created, moved in or out, removed; folders likewise) before the
//     last `fsync` of that folder. To flush a file says nothing of its name, and to flush a folder nothing of the folders
//     in it. A rename is there as a whole or not at all, as file systems with a journal promise; it is there for sure if
//     one of its two folders was flushed afterwards.
//
// Of all that came after, any part may be there:
//
//   - each write may be lost, whole, or torn: any of its sectors of 512 bytes may be there, the others are as they were;
//     a sector that was never written reads as zeros, never as another file's bytes;
//   - each truncation may be lost though later writes are there;
//   - a file may already have the size of a later write whose bytes are lost: zeros stand in their place;
//   - changes of folders are there up to some moment, as in a journal, or, as nothing promises that order, any of them
//     without the others. What depends on what is lost is lost with it: all in a folder that was never made, a removal of
//     what was not there.
//
// `*-shm` is memory that SQLite's connections share; no connection survives, and the file is left out, or empty.

/// The files and folders that one power cut leaves: made from a recording by a seed.
struct DiskState {
    /// How much of what was not flushed is there.
    private enum Survival {
        case all, none
        case some(Double)

        func keeps(_ random: inout SeededRandom) -> Bool {
            switch self {
            case .all: true
            case .none: false
            case .some(let probability): random.chance(probability)
            }
        }
    }

    private enum Node {
        case file(Int)
        case folder(Int)
    }

    private static let sector = 512

    /// Steps before this one happened before the cut.
    let cut: Int
    private var entries: [Int: [String: Node]] = [1: [:]]
    private var contents: [Int: [UInt8]] = [:]
    private var longest: [Int: Int] = [:]
    private var random: SeededRandom

    /// A state of those that a cut behind `cut` steps may leave.
    init(_ recording: Recording, cut: Int, seed: UInt64) {
        self.cut = cut
        random = SeededRandom(seed)
        let steps = recording.steps[..<cut]
        var flushed: [Int: Int] = [:]
        for (index, step) in steps.enumerated() {
            if case .flush(let object) = step { flushed[object] = index }
        }
        let names = Self.survival(&random)
        let bytes = Self.survival(&random)
        // As a journal does: all changes of names up to a moment.
        let journal = random.oneIn(2) ? Int.random(in: (flushed.values.max() ?? 0)...cut, using: &random) : nil
        for (index, step) in steps.enumerated() {
            if let file = step.writtenFile {
                change(file, step, isFlushed: index < flushed[file, default: -1], bytes)
            } else if !step.folders.isEmpty {
                let isFlushed = step.folders.contains { index < flushed[$0, default: -1] }
                if isFlushed || journal.map({ index < $0 }) ?? names.keeps(&random) { change(step) }
            }
        }
        for (file, size) in longest.sorted(by: { $0.key < $1.key }) where size > contents[file, default: []].count {
            if random.oneIn(4) { resize(file, size) }
        }
    }

    /// All of it: what is there if nothing goes wrong.
    init(whole recording: Recording) {
        cut = recording.steps.count
        random = SeededRandom(0)
        for step in recording.steps {
            if let file = step.writtenFile { change(file, step, isFlushed: true, .all) } else { change(step) }
        }
    }

    private static func survival(_ random: inout SeededRandom) -> Survival {
        switch Int.random(in: 0..<5, using: &random) {
        case 0: .all
        case 1: .none
        case 2: .some(0.9)
        case 3: .some(0.1)
        default: .some(0.5)
        }
    }

    // MARK: Names

    private mutating func change(_ step: Step) {
        switch step {
        case .create(let file, let place): entries[place.folder, default: [:]][place.name] = .file(file)
        case .makeFolder(let folder, let place): entries[place.folder, default: [:]][place.name] = .folder(folder)
        case .unlink(let file, let place): remove(file, place)
        case .removeFolder(let folder, let place):
            if entries[folder, default: [:]].isEmpty { remove(folder, place) }
        case .rename(let object, let from, let to):
            remove(object, from)
            entries[to.folder, default: [:]][to.name] = entries[object] == nil ? .file(object) : .folder(object)
        default: break
        }
        if case .makeFolder(let folder, _) = step, entries[folder] == nil { entries[folder] = [:] }
    }

    /// Another may have the name by now.
    private mutating func remove(_ object: Int, _ place: Step.Place) {
        switch entries[place.folder]?[place.name] {
        case .file(object), .folder(object): entries[place.folder]?[place.name] = nil
        default: break
        }
    }

    // MARK: Bytes

    private mutating func change(_ file: Int, _ step: Step, isFlushed: Bool, _ survival: Survival) {
        switch step {
        case .truncate(_, let size):
            if isFlushed || survival.keeps(&random) { resize(file, size) }
        case .write(_, let offset, let bytes):
            let end = offset + bytes.count
            if !isFlushed { longest[file] = max(longest[file, default: 0], end) }
            if isFlushed {
                longest[file] = nil
                put(file, offset, bytes)
            } else if random.oneIn(3) {
                tear(file, offset, bytes)
            } else if survival.keeps(&random) {
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

    /// Any of the sectors that a write touches.
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

    /// Makes the files and folders in a folder that is there and empty.
    func write(into folder: URL) throws {
        var random = random
        try write(1, folder.path, &random)
    }

    private func write(_ number: Int, _ path: String, _ random: inout SeededRandom) throws {
        for (name, node) in entries[number, default: [:]].sorted(by: { $0.key < $1.key }) {
            let path = path + "/" + name
            switch node {
            case .folder(let number):
                guard mkdir(path, 0o700) == 0 else { throw CocoaError(.fileWriteUnknown) }
                try write(number, path, &random)
            case .file(let number):
                let isShared = name.hasSuffix("-shm")
                if isShared, random.oneIn(2) { continue }
                let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
                guard file >= 0 else { throw CocoaError(.fileWriteUnknown) }
                defer { close(file) }
                let bytes = isShared ? [] : contents[number, default: []]
                guard Glibc.write(file, bytes, bytes.count) == bytes.count else { throw CocoaError(.fileWriteUnknown) }
            }
        }
    }

    /// The files by their paths, those that connections share left out: to be compared with what is really there.
    var files: [String: [UInt8]] {
        var found: [String: [UInt8]] = [:]
        func walk(_ number: Int, _ path: String) {
            for (name, node) in entries[number, default: [:]] {
                switch node {
                case .folder(let number): walk(number, path + name + "/")
                case .file(let number):
                    if !name.hasSuffix("-shm") { found[path + name] = contents[number, default: []] }
                }
            }
        }
        walk(1, "")
        return found
    }
}
