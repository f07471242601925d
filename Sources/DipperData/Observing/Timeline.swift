/// Records what a cache does, and draws it.
public final class Timeline: Sendable {
    public init() {}
    public var record: @Sendable (CacheEvent) -> Void { { _ in } }
    public func svg() -> String { "<svg xmlns=\"http://www.w3.org/2000/svg\"/>" }
}
