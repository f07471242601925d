/// Why nothing can be kept on disk.
package struct StoreProblem: Sendable, Hashable {
    /// A sentence for a log or a terminal, without its full stop.
    package let description: String
    /// The cache may not use the folder, whatever it could do there.
    package let isRefusal: Bool
    /// Whether the entries that are there can still be read.
    package let isReadable: Bool

    init(_ description: String, isRefusal: Bool = false, isReadable: Bool = false) {
        self.description = description
        self.isRefusal = isRefusal
        self.isReadable = isReadable
    }
}
