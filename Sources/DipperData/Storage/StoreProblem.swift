/// The reason why nothing can be kept on disk.
package struct StoreProblem: Sendable, Hashable {
    /// A sentence for a log or a terminal, without its full stop.
    package let description: String
    /// Whether the cache refuses to use the folder, whatever it could do there.
    package let isRefusal: Bool
    /// Whether existing entries can be read although nothing can be written.
    package let isReadable: Bool

    init(_ description: String, isRefusal: Bool = false, isReadable: Bool = false) {
        self.description = description
        self.isRefusal = isRefusal
        self.isReadable = isReadable
    }
}
