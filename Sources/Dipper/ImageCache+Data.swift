extension ImageCache {
    /// The limits and the order of `fastQueue`. They can be changed at any time.
    public var fastQueue: QueueConfiguration {
        get { data.fastQueue }
        set { data.fastQueue = newValue }
    }
    /// The limits and the order of `slowQueue`. They can be changed at any time.
    public var slowQueue: QueueConfiguration {
        get { data.slowQueue }
        set { data.slowQueue = newValue }
    }
    /// The numbers of fetches in the queues, by what the fetches are doing now.
    public var queueCounts: QueueCounts { data.queueCounts }

    /// The counts of what the cache has done so far, in calls for pictures and for bytes.
    public var statistics: CacheStatistics { data.statistics }

    /// The events of the cache from now on, until it has shut down.
    public var events: CacheEvents { data.events }
    /// Returns the events of some topics from now on, until the cache has shut down.
    public func events(about topics: CacheEvent.Topics = .all, limit: Int = 1_024) -> CacheEvents {
        data.events(about: topics, limit: limit)
    }

    /// The number of bytes on disk, without those that still have to be written.
    public var diskSize: Int { data.diskSize }
    /// The number of files and pictures on disk, without those that still have to be written.
    public var diskCount: Int { data.diskCount }

    /// The limit of the disk, in bytes; `nil` for no limit. Files beyond a lower limit are removed in the background.
    public var diskLimit: Int? {
        get { data.diskLimit }
        set { data.diskLimit = newValue }
    }

    /// Removes files and pictures from disk, in the order of eviction, until no more than a number of bytes is left.
    public func trimDisk(to size: Int) { data.trimDisk(to: size) }

    /// Reads every entry on disk, removes damaged entries, repairs the index, and returns a report.
    public func verify() async -> StoreReport { await data.verify() }
}
