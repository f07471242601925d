/// A rule that decides whether an answer is acceptable, before the answer is kept or handed out. A stored answer is
/// checked again for each call that it might answer.
///
/// ```swift
/// let isJSON = ResponseValidation { response in
///     response.headers["Content-Type"]?.hasPrefix("application/json") == true ? nil : .rejected
/// }
/// let request = DataRequest(url).with(\.validation, .success.and(isJSON))
/// ```
public struct ResponseValidation: Sendable {
    let check: @Sendable (TransferResponse) -> DipperError?

    /// The rule that accepts statuses 200 to 299, the default of every request.
    public static let success = ResponseValidation { response in
        (200...299).contains(response.status) ? nil : .status(response.status)
    }

    /// The rule that accepts every final status. The freshness policy decides which of these answers are kept.
    ///
    /// ```swift
    /// let request = DataRequest(url).with(\.validation, .anyStatus)
    /// print(try await cache.getData(request).response.status)
    /// ```
    public static let anyStatus = ResponseValidation { _ in nil }

    /// Creates a rule of the caller's own, for example for the type or the bytes. The closure is called on any thread,
    /// also on one that works for other calls, so it must return soon.
    /// - Parameter check: returns the error if the answer is not acceptable, such as ``DipperError/rejected`` or
    ///   ``DipperError/status(_:)``; `nil` if it is.
    public init(_ check: @escaping @Sendable (TransferResponse) -> DipperError?) {
        self.check = check
    }

    /// Returns a rule that requires both rules and checks this one first.
    public func and(_ other: ResponseValidation) -> ResponseValidation {
        ResponseValidation { response in self.check(response) ?? other.check(response) }
    }
}
