import DipperData
import Foundation
import Synchronization

/// The decoding of a picture while its file arrives, so that little is left to do after the last byte.
final class EarlyDecode: EarlyMaking {
    /// The largest memory that is taken before a file is complete, in bytes.
    private static let mostMemory = 64 << 20
    /// A file whose header is longer than this is decoded as a whole, in bytes.
    private static let longestHeader = 1 << 20

    private enum State {
        case waiting
        /// The bytes that the stream has seen, which must be the beginning of the whole file.
        case running(any PictureStream, seen: Data)
        case over
    }

    private let codecs: CodecRegistry
    private let options: DecodeOptions
    private let isCancelled = Atomic(false)
    private let state = Mutex(State.waiting)

    init(_ codecs: CodecRegistry, _ options: DecodeOptions) {
        (self.codecs, self.options) = (codecs, options)
    }

    func cancel() { isCancelled.store(true, ordering: .relaxed) }

    func advance(_ bytes: Data) -> Bool {
        state.withLock { state in
            do throws(DipperError) {
                guard let stream = try stream(of: bytes, state) else { return true }
                state = .over
                try stream.advance(bytes)
                state = .running(stream, seen: bytes)
                return true
            } catch {
                state = .over
                return false
            }
        }
    }

    /// `nil` if nothing has been decoded that is of use.
    private func stream(of bytes: Data, _ state: State) throws(DipperError) -> (any PictureStream)? {
        switch state {
        case .over: throw .cancelled
        case .running(let stream, let seen):
            guard bytes.begins(with: seen) else { throw .cancelled }
            return stream
        case .waiting:
            if bytes.count < CodecRegistry.sniffLength, (try? codecs.decoder(for: bytes)) == nil { return nil }
            guard let decoder = try codecs.decoder(for: bytes) as? any StreamingDecoder,
                codecs.isolation(of: decoder, options) == .off
            else { throw .unsupportedFormat }
            var options = options
            options.limits.bytes = min(options.limits.bytes, Self.mostMemory)
            options.isCancelled = { [weak self] in self?.isCancelled.load(ordering: .relaxed) ?? true }
            if let stream = try decoder.stream(of: bytes, options) { return stream }
            guard bytes.count < Self.longestHeader else { throw .undecodable }
            return nil
        }
    }

    /// Returns the picture; `nil` if the file is to be decoded as a whole.
    func finish(_ file: Data) -> Image? {
        state.withLock { state in
            guard case .running(let stream, let seen) = state, file.begins(with: seen) else { return nil }
            state = .over
            return try? stream.finish(file)
        }
    }
}

extension Data {
    /// Bytes at one address are compared by it alone: what has arrived does not change.
    fileprivate func begins(with beginning: Data) -> Bool {
        guard beginning.count <= count else { return false }
        return withUnsafeBytes { whole in
            beginning.withUnsafeBytes { part in
                guard let a = whole.baseAddress, let b = part.baseAddress else { return part.isEmpty }
                return a == b || memcmp(a, b, part.count) == 0
            }
        }
    }
}
