/// A closure that is called before each redirect is followed.
///
/// The cache only follows redirects to http and https. To another origin it sends only fields that describe the wanted
/// kind of answer, such as `Accept` and `User-Agent`. Without a handler, a redirect from https to http ends the call
/// with ``DipperError/insecureRedirect``. A handler that returns the request allows such a redirect; the answer is then
/// delivered but not kept.
///
/// ```swift
/// let sameHost = RedirectHandler { redirection, request in
///     request.url.host() == url.host() ? request : nil
/// }
/// let request = DataRequest(url).with(\.redirectHandler, sameHost)
/// ```
public struct RedirectHandler: Sendable {
    /// The answer that redirects, without its body.
    public struct Redirection: Sendable {
        /// The status: 301, 302, 303, 307 or 308.
        public let status: Int
        /// The header fields of the redirecting answer.
        public let headers: HTTPHeaders
        /// The number of redirects followed before this one.
        public let count: Int
    }

    let decide: @Sendable (Redirection, TransferRequest) async -> TransferRequest?

    /// Creates a handler from a closure.
    /// - Parameter decide: returns the request to send next, such as the given one. With `nil` the redirect is not
    ///   followed, and the redirecting answer is the result, which the default ``DataRequest/validation`` refuses.
    public init(_ decide: @escaping @Sendable (Redirection, TransferRequest) async -> TransferRequest?) {
        self.decide = decide
    }
}
