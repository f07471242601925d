import Synchronization

/// A pool of memory blocks for the next pictures. Above its limit it gives up the oldest blocks first.
final class PixelPool: Sendable {
    /// A block and its length in bytes, stored as an address so that it may pass between threads.
    struct Block {
        fileprivate let address: UInt
        let capacity: Int

        var start: UnsafeMutableRawPointer? { UnsafeMutableRawPointer(bitPattern: address) }
    }

    private struct State {
        /// The blocks, oldest first.
        var blocks: [Block] = []
        var byteCount = 0
        /// The number of pauses in effect; above zero the pool keeps no block.
        var pauses = 0
    }

    /// The most bytes that the pool keeps.
    let limit: Int
    private let state = Mutex(State())

    init(limit: Int) {
        self.limit = limit
    }

    /// Takes the block of exactly this length that was given last, or else the shortest longer one up to a length.
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
    /// - Returns: blocks that the caller must free, possibly including this one. They are never freed under the lock.
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

    /// Removes all blocks, which the caller must free.
    func empty() -> [Block] {
        state.withLock { state in
            let blocks = state.blocks
            state = State(pauses: state.pauses)
            return blocks
        }
    }

    /// Stops keeping blocks until each pause has ended.
    /// - Returns: all blocks, which the caller must free.
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

    /// The total size of all blocks, in bytes.
    var byteCount: Int { state.withLock { $0.byteCount } }
}
