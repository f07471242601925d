import Foundation
import Synchronization

/// The bytes that wait to be decoded, from all data caches together. At the limit all fetches wait for the decoder, and
/// prefetches at half of it, so that there is room for urgent pictures.
final class DecodeBacklog: Sendable {
    private struct State: Sendable {
        var all: ByteBudget
        var prefetches: ByteBudget
        /// By the number of the data cache.
        var holds: [UInt64: Holds] = [:]

        var notices: Notices { Notices(all: all.notice, prefetches: prefetches.notice) }
    }

    private struct Notices: Hashable {
        let all: ByteBudget.Notice
        let prefetches: ByteBudget.Notice
    }

    private final class Holds: Sendable {
        private let all: FetchHold
        private let prefetches: FetchHold

        init(_ originals: DataCache) {
            all = originals.makeHold(of: .fast)
            prefetches = originals.makeHold(of: .slow)
        }

        var isOver: Bool { all.isOver }

        func tell(_ notices: Notices) {
            prefetches.tell(notices.prefetches)
            all.tell(notices.all)
        }
    }

    private let state: Mutex<State>

    /// The limit is in bytes.
    init(limit: Int) {
        state = Mutex(State(all: ByteBudget(limit: limit), prefetches: ByteBudget(limit: limit / 2)))
    }

    var used: Int { state.withLock { $0.all.used } }

    var count: Int { state.withLock { $0.holds.count } }

    /// Holds back the fetches of a data cache too. Must be called before anything is fetched from that cache.
    func follow(_ originals: DataCache) {
        let number = originals.number
        let present = state.withLock { $0.holds }
        if present[number] != nil { return }
        let holds = Holds(originals)
        // Looking at a data cache may release it, which must not happen under the lock.
        let over = present.filter(\.value.isOver)
        let notices = state.withLock { state -> Notices? in
            guard state.holds[number] == nil else { return nil }
            for number in over.keys { state.holds[number] = nil }
            state.holds[number] = holds
            return state.notices
        }
        withExtendedLifetime(over) {}
        if let notices { holds.tell(notices) }
    }

    /// Adds bytes that wait to be decoded; a negative number takes away those that wait no longer.
    func take(_ bytes: Int) {
        let (notices, holds) = state.withLock { state -> (Notices, [Holds]) in
            let before = state.notices
            state.all.take(bytes)
            state.prefetches.take(bytes)
            let notices = state.notices
            return (notices, notices == before ? [] : Array(state.holds.values))
        }
        for hold in holds { hold.tell(notices) }
    }
}

enum DecodeCost {
    /// In bytes, by the header: the pixels of the result, and those that the codec holds meanwhile; without a size in
    /// the header, the bytes of the file. Without options, the picture is decoded as it is.
    static func bytes(of data: Data, _ options: ResolvedOptions?) -> Int {
        guard let info = try? ImageInfo(data), let size = info.size else { return data.count }
        let chain = options?.chain
        let target = chain?.decodeTarget.map { $0.size(for: size) } ?? size
        let whole = bytes(size)
        let held =
            switch info.format {
            // Rows are resampled as they are decoded; a progressive or interlaced picture is assembled first.
            case .jpeg, .png: info.isProgressive ? whole : 0
            // Other formats are decoded into a canvas, which is then copied in the requested size.
            default: whole
            }
        // A processor makes a second picture from the decoded one.
        let result = bytes(target)
        let made = chain?.processors.isEmpty == false ? sum(result, result) : result
        return sum(held, made)
    }

    private static func bytes(_ size: PixelSize) -> Int {
        let (pixels, overflows) = size.width.multipliedReportingOverflow(by: size.height)
        return overflows || pixels > Int.max / 4 ? .max : pixels * 4
    }

    private static func sum(_ a: Int, _ b: Int) -> Int {
        let (sum, overflows) = a.addingReportingOverflow(b)
        return overflows ? .max : sum
    }
}

/// Releases the memory that is kept for later pictures when memory becomes short, and keeps none until the pressure
/// ends: displays and caches release their pictures a little later, and that memory must go back to the system.
final class PixelPressure: Sendable {
    private final class Pause: Sendable {
        init() { PixelMemory.pausePooling() }
        deinit { PixelMemory.resumePooling() }
    }

    private let pause = Mutex<Pause?>(nil)

    func follow(_ level: MemoryPressure) {
        let next = level == .normal ? nil : Pause()
        let last = pause.withLock { exchange(&$0, with: next) }
        _ = consume last
    }
}
