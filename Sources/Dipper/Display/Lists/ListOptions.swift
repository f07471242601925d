/// The options with which a ``ListLoader`` fetches ahead. Every option has a default.
///
/// ```swift
/// var options = ListOptions()
/// options.screensAhead = 4
/// options.maxPrefetches = 4
/// let list = ListLoader(cache, count: photos.count, options: options) { row in [ImageRequest(photos[row])] }
/// ```
public struct ListOptions: Sendable, Hashable {
    /// The distance that is prefetched in the direction in which the list moved last, in screens. A screen is the
    /// number of visible rows.
    ///
    /// As long as the list has not moved, the distance on each side is half of this, or ``screensBehind`` if that is
    /// more.
    public var screensAhead = 2.0
    /// The distance behind the visible rows in which rows are still fetched, in screens.
    public var screensBehind = 1.0
    /// The shortest time for which rows of a fast list must be on screen to be fetched.
    ///
    /// Rows that pass faster are shown only if the cache has them: fetching them would delay the rows at which the list
    /// comes to rest.
    public var minimumDwell = Duration.milliseconds(250)
    /// The time after which a list that has not been updated counts as at rest.
    public var restsAfter = Duration.milliseconds(50)
    /// The number of rows with prefetches in progress from which on no further row is prefetched.
    ///
    /// A small number lets later prefetches begin where the list is by then.
    public var maxPrefetches = 2

    /// Creates the default options.
    public init() {}
}
