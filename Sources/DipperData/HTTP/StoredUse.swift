/// How a stored answer may be used for a request.
package enum StoredUse: Sendable, Equatable {
    /// The stored answer is used.
    case fresh
    /// The stored answer is used, and refreshed in the background.
    case staleWhileRevalidating
    /// The stored answer is used, because the request accepts its age.
    case stale
    /// The server is asked, with the stored validators if there are any.
    case revalidate
}
