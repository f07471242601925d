/// How a stored answer may be used for a request.
package enum StoredUse: Sendable, Equatable {
    /// It is the answer.
    case fresh
    /// It is the answer, and is to be refreshed in the background.
    case staleWhileRevalidating
    /// It is the answer, as the request puts up with its age.
    case stale
    /// The server is to be asked, with the validators there are.
    case revalidate
}
