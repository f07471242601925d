import Synchronization

/// Blocks of memory that wait for the next picture; the oldest go first when there are too many bytes.
final class PixelPool: Sendable {
    /// A block and its length in bytes. The address alone may pass from thread to thread.
    struct Block {
        fileprivate let address: UInt
        let capacity: Int

        var start: UnsafeMutableRawPointer? { UnsafeMutableRawPointer(bitPattern: address) }
    }

    private struct State {
        /// The oldest in front.
        var blocks: [Block] = []
        var byteCount = 0
        /// How many want no block to be kept.
        var pauses = 0
    }

    /// In bytes.
    let limit: Int
    private let state = Mutex(State())

    init(limit: Int) {
        self.limit = limit
    }

    /// The block of exactly this length that was given last, if there is one; otherwise the shortest of those up to a
    /// length.
    func take(_ capacity: Int, upTo longest: Int = 0) -> Block? {
        state.withLock { state in
            var best: Int?
            for index in state.blocks.indices.reversed() {
                let found = state.blocks[index].capacity
                if found == capacity {
                    best = index
                    break
                }
                guard found > capacity, found <= longest else { continue }
                if best.map({ found < state.blocks[$0].capacity }) ?? true { best = index }
            }
            guard let best else { return nil }
            state.byteCount -= state.blocks[best].capacity
            return state.blocks.remove(at: best)
        }
    }

    /// Keeps a block.
    /// - Returns: blocks to be freed, which may be the same one: never under the lock.
    func give(_ start: UnsafeMutableRawPointer, _ capacity: Int) -> [Block] {
        let block = Block(address: UInt(bitPattern: start), capacity: capacity)
        guard capacity <= limit else { return [block] }
        return state.withLock { state in
            if state.pauses > 0 { return [block] }
            state.blocks.append(block)
            state.byteCount += capacity
            var count = 0
            while state.byteCount > limit {
                state.byteCount -= state.blocks[count].capacity
                count += 1
            }
            guard count > 0 else { return [] }
            let oldest = Array(state.blocks.prefix(count))
            state.blocks.removeFirst(count)
            return oldest
        }
    }

    /// Gives up all blocks, which are to be freed.
    func empty() -> [Block] {
        state.withLock { state in
            let blocks = state.blocks
            state = State(pauses: state.pauses)
            return blocks
        }
    }

    /// Keeps no block any more until each pause has ended.
    /// - Returns: all blocks, which are to be freed.
    func pause() -> [Block] {
        state.withLock { state in
            let blocks = state.blocks
            state = State(pauses: state.pauses + 1)
            return blocks
        }
    }

    func resume() {
        state.withLock { $0.pauses -= 1 }
    }

    /// Bytes of all blocks.
    var byteCount: Int { state.withLock { $0.byteCount } }
}
