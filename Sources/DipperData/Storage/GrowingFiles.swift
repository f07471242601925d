import CXXHash
import Foundation

/// The files of long bodies that still arrive. Used on the writer thread alone.
///
/// The bytes are appended as they come, and the row of the partial body then names their number and their checksum. So a
/// program that is killed continues there the next time. The file of a body that has arrived becomes that of its entry.
struct GrowingFiles: ~Copyable {
    final class File {
        let origin: BodyOrigin
        let blob: String
        fileprivate(set) var count = 0
        fileprivate var isArriving = true
        /// Whether nothing more is appended: the disk is full, or another process has removed the file.
        fileprivate var isGivenUp = false
        private let state = XXH3_createState()

        fileprivate init(_ origin: BodyOrigin, _ blob: String) {
            (self.origin, self.blob) = (origin, blob)
            XXH3_64bits_reset(state)
        }

        deinit { XXH3_freeState(state) }

        /// As ``Foundation/Data/digest`` of all bytes.
        var digest: UInt64 { XXH3_64bits_digest(state) }

        fileprivate func add(_ pieces: [Data]) {
            for piece in pieces {
                piece.withUnsafeBytes { _ = XXH3_64bits_update(state, $0.baseAddress, $0.count) }
                count += piece.count
            }
        }
    }

    static let name = "partial"
    /// In bytes. A shorter body is written when its transfer is broken off.
    static let leastSize = 1 << 20
    private static let mostFiles = 1_024

    private var files: [Int: File] = [:]

    /// The numbers of the rows whose bodies arrive.
    var arriving: Set<Int> { Set(files.filter(\.value.isArriving).keys) }

    func file(_ id: Int) -> File? { files[id] }

    mutating func forget(_ id: Int) { files[id] = nil }

    /// Appends what is missing.
    /// - Returns: `nil` if nothing could be written.
    mutating func grow(_ partial: StagingArea.Partial, _ id: Int, in blobs: BlobFiles) throws(FileError) -> File? {
        if let file = files[id], file.origin === partial.body.origin, file.count <= partial.body.count {
            file.isArriving = partial.isArriving
            if !file.isGivenUp, try append(partial.body.pieces, to: file, in: blobs) { return file }
            file.isGivenUp = true
            // Another process may bring the same body: nobody writes it anew with each piece.
            if partial.isArriving { return nil }
        }
        if files.count >= Self.mostFiles { files = files.filter(\.value.isArriving) }
        let file = File(partial.body.origin, try blobs.newName(id, Self.name))
        file.isArriving = partial.isArriving
        files[id] = file
        return try append(partial.body.pieces, to: file, in: blobs) ? file : nil
    }

    /// Appends what is missing of a whole body.
    /// - Returns: the name of its file; `nil` if there is none, or if it has other bytes.
    mutating func finish(_ body: Data, _ id: Int, in blobs: BlobFiles) throws(FileError) -> String? {
        guard let file = files.removeValue(forKey: id), !file.isGivenUp, file.count <= body.count,
            body.prefix(file.count).digest == file.digest
        else { return nil }
        return try append([body], to: file, in: blobs) ? file.blob : nil
    }

    private func append(_ pieces: [Data], to file: File, in blobs: BlobFiles) throws(FileError) -> Bool {
        var known = file.count
        let rest = pieces.compactMap { piece -> Data? in
            defer { known = max(0, known - piece.count) }
            return piece.count > known ? piece.dropFirst(known) : nil
        }
        do {
            guard try blobs.append(rest, to: file.blob, at: file.count) else { return false }
        } catch {
            file.isGivenUp = true
            throw error
        }
        file.add(rest)
        return true
    }
}

/// Used on the writer thread alone.
extension DiskTier {
    /// Whether a body grows in its file: what a codec encodes does not.
    func growsFile(_ body: PartialBody) -> Bool { options.recordCodec == nil && body.count >= GrowingFiles.leastSize }

    func grow(
        _ partial: StagingArea.Partial, _ id: Int, _ files: BlobFiles
    ) throws(FileError) -> (blob: String, count: Int, digest: UInt64, isNew: Bool)? {
        try growing.withLock { growing throws(FileError) in
            let known = growing.file(id)?.blob
            return try growing.grow(partial, id, in: files).map { ($0.blob, $0.count, $0.digest, $0.blob != known) }
        }
    }

    /// Makes the file of a body that has arrived that of its entry. The row of the partial body names the file until that
    /// of the entry takes its place.
    /// - Returns: its new name; `nil` if the body is to be written.
    func finishGrowing(
        _ body: Data, _ id: Int, _ name: String, _ durability: Durability, _ files: BlobFiles
    ) throws(FileError) -> String? {
        let grown = try growing.withLock { growing throws(FileError) in try growing.finish(body, id, in: files) }
        guard let grown else { return nil }
        let blob = try files.newName(id, name)
        return try files.link(grown, as: blob, durability) ? blob : nil
    }
}
