import Foundation

extension Array {
    /// Appends, and asks the kernel for large pages where the array has grown to many megabytes: with a million queued
    /// jobs nearly every access would miss the processor's table of small ones.
    mutating func appendLarge(_ element: Element) {
        let grows = count == capacity
        append(element)
        if grows { adviseLargePages() }
    }

    /// To be called when the array's memory is new. Without effect on small arrays, and where the kernel has no large
    /// pages.
    mutating func adviseLargePages() {
        let page = 2 << 20
        let bytes = capacity * MemoryLayout<Element>.stride
        guard bytes >= 4 * page else { return }
        withUnsafeMutableBufferPointer { buffer in
            guard let start = buffer.baseAddress else { return }
            let first = (UInt(bitPattern: start) + UInt(page) - 1) / UInt(page) * UInt(page)
            let end = (UInt(bitPattern: start) + UInt(bytes)) / UInt(page) * UInt(page)
            guard end > first, let aligned = UnsafeMutableRawPointer(bitPattern: first) else { return }
            madvise(aligned, Int(end - first), MADV_HUGEPAGE)
        }
    }
}
