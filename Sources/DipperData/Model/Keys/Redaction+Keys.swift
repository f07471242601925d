extension Redaction {
    /// Returns the first line of a key without secrets. The first line of a default key is its URL.
    public func text(_ key: CacheKey) -> String { text(key.string) }
}
