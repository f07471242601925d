import DipperData

/// What a player has to tell and could not tell yet, in order: at most one of a kind.
///
/// A callback queue that is blocked for long finds the newest frame and the newest count of loops, not all of them.
struct AnimationMailbox: Sendable {
    enum News: Sendable {
        case prepared
        case frame(Image, index: Int)
        case looped(Int)
        case finished
        case failed(DipperError)

        var isEnd: Bool {
            switch self {
            case .finished, .failed: true
            case .prepared, .frame, .looped: false
            }
        }

        fileprivate func replaces(_ older: News) -> Bool {
            switch (self, older) {
            case (.frame, .frame), (.looped, .looped): true
            default: false
            }
        }
    }

    private var news: [News] = []
    /// A call on the callback queue is on its way, or at work.
    private var isOnItsWay = false
    /// Nothing is handed out.
    var isHeld = false

    var count: Int { news.count }
    /// The end is still to be told.
    var hasEnd: Bool { news.contains(where: \.isEnd) }

    /// - Returns: what it replaces, to be freed where no lock is held.
    mutating func post(_ item: News) -> News? {
        let replaced = news.firstIndex { item.replaces($0) }.map { news.remove(at: $0) }
        news.append(item)
        return replaced
    }

    /// - Returns: what was not told.
    mutating func clear() -> [News] {
        defer { news = [] }
        return news
    }

    /// - Returns: true if a call is to be made on the callback queue.
    mutating func beginCall() -> Bool {
        guard !isOnItsWay, !isHeld, !news.isEmpty else { return false }
        isOnItsWay = true
        return true
    }

    mutating func take() -> News? { isHeld || news.isEmpty ? nil : news.removeFirst() }

    /// - Returns: true if another call is to be made.
    mutating func endCall() -> Bool {
        isOnItsWay = false
        return beginCall()
    }
}
