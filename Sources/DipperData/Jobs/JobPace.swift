/// The pacing of the reports on a transfer.
struct JobPace: Sendable {
    /// A kind of report.
    enum News: Sendable {
        case progress
        /// The bytes that have arrived.
        case bytes
    }

    private var progress = Pacing()
    private var bytes = Pacing()

    subscript(news: News) -> Pacing {
        get { news == .progress ? progress : bytes }
        set { if news == .progress { progress = newValue } else { bytes = newValue } }
    }
}
