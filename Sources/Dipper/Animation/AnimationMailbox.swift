import DipperData

/// The news of a player that has not been delivered yet, in order.
///
/// The mailbox keeps only the newest frame and the newest count of loops, for a callback queue that is blocked for
/// long.
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
    /// Whether a call is waiting or running on the callback queue.
    private var isOnItsWay = false
    /// Whether the mailbox hands out nothing.
    var isHeld = false

    var count: Int { news.count }
    /// Whether the mailbox has the end of the player.
    var hasEnd: Bool { news.contains(where: \.isEnd) }

    /// Adds news, in place of older news of the same kind if only the newest is kept.
    /// - Returns: the news that was replaced. The caller must free it when it holds no lock.
    mutating func post(_ item: News) -> News? {
        let replaced = news.firstIndex { item.replaces($0) }.map { news.remove(at: $0) }
        news.append(item)
        return replaced
    }

    /// Removes all news.
    /// - Returns: the news that was not delivered.
    mutating func clear() -> [News] {
        defer { news = [] }
        return news
    }

    /// Begins a call on the callback queue, if there is news to deliver and no other call.
    /// - Returns: `true` if the caller must make a call on the callback queue.
    mutating func beginCall() -> Bool {
        guard !isOnItsWay, !isHeld, !news.isEmpty else { return false }
        isOnItsWay = true
        return true
    }

    mutating func take() -> News? { isHeld || news.isEmpty ? nil : news.removeFirst() }

    /// Ends a call on the callback queue, and begins another one if there is more news.
    /// - Returns: `true` if the caller must make another call on the callback queue.
    mutating func endCall() -> Bool {
        isOnItsWay = false
        return beginCall()
    }
}
