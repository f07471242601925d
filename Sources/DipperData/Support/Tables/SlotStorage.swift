/// Storage for slots that grows at the end and is read in place. An array would copy what it hands out, which at a hit
/// costs more than all the rest.
struct SlotStorage<Slot>: ~Copyable {
    private(set) var start: UnsafeMutablePointer<Slot>
    private(set) var count = 0
    private var capacity = 16

    init() {
        start = .allocate(capacity: capacity)
    }

    deinit {
        start.deinitialize(count: count)
        start.deallocate()
    }

    mutating func append(_ slot: consuming Slot) {
        if count == capacity {
            let grown = UnsafeMutablePointer<Slot>.allocate(capacity: capacity * 2)
            grown.moveInitialize(from: start, count: count)
            start.deallocate()
            start = grown
            capacity *= 2
        }
        (start + count).initialize(to: slot)
        count += 1
    }
}
