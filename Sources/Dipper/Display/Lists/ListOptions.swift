/// How far ahead of the list a ``ListLoader`` looks: a value, with a default for everything.
public struct ListOptions: Sendable, Hashable {
    /// How much is prefetched in the direction the list moved in last, in screens: as many rows as can be seen at once.
    /// As long as it has not moved, half of it on each side.
    public var screensAhead = 2.0
    /// How much of what has been scrolled past is still fetched, in screens.
    public var screensBehind = 1.0
    /// Rows that are on screen for less than this while the list rushes by are shown only if the cache has them: fetching
    /// them would hold up those it comes to rest at.
    public var minimumDwell = Duration.milliseconds(250)
    /// A list of which nothing has been heard for so long is at rest.
    public var restsAfter = Duration.milliseconds(50)
    /// Prefetches that wait or run at one time. A few, so that those that follow begin where the list is by then.
    public var maxPrefetches = 2

    /// The defaults.
    public init() {}
}
