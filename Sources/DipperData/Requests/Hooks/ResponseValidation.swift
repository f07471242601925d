/// Decides whether an answer will do, before it is kept or handed out. What is kept is asked about again for each call
/// that it might answer.
public struct ResponseValidation: Sendable {
    let check: @Sendable (TransferResponse) -> DipperError?

    /// Statuses 200 to 299; what every request has that says nothing.
    public static let success = ResponseValidation { response in
        (200...299).contains(response.status) ? nil : .status(response.status)
    }

    /// Every final status is an answer. What is kept of them is for the freshness policy to say.
    public static let anyStatus = ResponseValidation { _ in nil }

    /// A rule of one's own, such as for the type or the bytes. Called on any thread.
    /// - Parameter check: why the answer will not do, such as ``DipperError/rejected`` or ``DipperError/status(_:)``;
    ///   `nil` if it will.
    public init(_ check: @escaping @Sendable (TransferResponse) -> DipperError?) {
        self.check = check
    }

    /// Both rules, this one first.
    public func and(_ other: ResponseValidation) -> ResponseValidation {
        ResponseValidation { response in self.check(response) ?? other.check(response) }
    }
}
