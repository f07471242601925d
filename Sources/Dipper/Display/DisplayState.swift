import DipperData

/// What one display shows and waits for. Decides, and does nothing: events go in, actions come out, to be carried out in
/// their order on the display's queue.
struct DisplayState {
    /// Where the display is.
    enum Presence: Sendable, Hashable, CaseIterable {
        /// Someone looks at it.
        case visible
        /// On screen, but gone before anything could be fetched.
        case passing
        /// Nobody sees it.
        case offScreen
    }

    /// How the picture is asked for.
    enum Fetch: Sendable, Hashable {
        /// By an urgent call.
        case urgent
        /// From memory and disk alone.
        case cached
        /// By a prefetch.
        case slow
    }

    enum Action {
        /// Makes a call in place of the one there is, which is disposed of once the new one has been made.
        case fetch(Fetch, disposal: DisplayOptions.Abandonment)
        /// The call goes on as a prefetch.
        case demote
        /// There is no use for the call any more.
        case dispose(DisplayOptions.Abandonment)
        case show(DisplayContent, ImageTransition)
        case activity(DisplayActivity?)
        /// Brings the other frames of a picture that moves.
        case play(Image)
        case pause, resume, stop, releaseFrames
        /// Tells whoever set the picture.
        case complete(Result<ImageResponse, DipperError>)
    }

    private enum Phase: Equatable {
        /// Nothing is wanted, or it could not be had.
        case idle
        /// A picture is wanted, and nothing is done about it.
        case waiting
        /// A call is about to be made.
        case asking(Fetch, isNew: Bool)
        case loading(Fetch)
        case shown(moves: Bool)
    }

    private(set) var presence = Presence.visible
    private var phase = Phase.idle
    private var options = DisplayOptions()
    private var placeholder: Placeholder?
    private var pressure: MemoryPressure
    /// Part of the picture at least can be seen, or one before it.
    private var showsPicture = false
    private var activity: DisplayActivity?

    init(pressure: MemoryPressure = .normal) {
        self.pressure = pressure
    }

    private var isReleasing: Bool {
        pressure != .normal && presence == .offScreen && options.releasesUnderPressure
    }

    // MARK: What is wanted

    /// Another picture is wanted, or none, by a display that may be somewhere else.
    mutating func set(
        isWanted: Bool, _ placeholder: Placeholder?, _ options: DisplayOptions, _ presence: Presence
    ) -> [Action] {
        self.presence = presence
        var actions: [Action] = []
        let disposal = self.options.abandonment
        if phase == .shown(moves: true) { actions.append(.stop) }
        let isLoading = if case .loading = phase { true } else { false }
        self.placeholder = placeholder
        self.options = options
        let fetch: Fetch? =
            switch presence {
            case _ where !isWanted: nil
            case .visible: .urgent
            case .passing: .cached
            case .offScreen: options.loadsOffScreen ? .slow : nil
            }
        if let fetch {
            phase = .asking(fetch, isNew: true)
            return actions + [.fetch(fetch, disposal: disposal)]
        }
        phase = isWanted ? .waiting : .idle
        if isLoading { actions.append(.dispose(disposal)) }
        actions += showActivity(nil)
        actions += showPlaceholder()
        if !isWanted { actions.append(.complete(.failure(.noSource))) }
        return actions
    }

    /// The picture is not wanted any more; what is shown stays.
    mutating func cancel() -> [Action] {
        var actions: [Action] = []
        switch phase {
        case .idle, .shown: return []
        case .loading, .asking: actions.append(.dispose(.cancel))
        case .waiting: break
        }
        phase = .idle
        return actions + showActivity(nil) + [.complete(.failure(.cancelled))]
    }

    // MARK: Where the display is

    /// The display has moved.
    mutating func move(to new: Presence) -> [Action] {
        let old = presence
        presence = new
        guard old != new else { return [] }
        switch (phase, new) {
        case (.waiting, .visible), (.loading(.slow), .visible), (.loading(.cached), .visible):
            return refetch(.urgent)
        case (.waiting, .passing): return refetch(.cached)
        case (.loading(.urgent), .passing), (.loading(.urgent), .offScreen):
            phase = .loading(.slow)
            return [.demote]
        case (.loading(.cached), .offScreen):
            phase = .waiting
            return [.dispose(.cancel)]
        case (.shown(let moves), _):
            if isReleasing { return release() }
            guard moves else { return [] }
            return [new == .visible ? .resume : .pause]
        default: return []
        }
    }

    /// The system is short of memory, or no longer.
    mutating func press(_ pressure: MemoryPressure) -> [Action] {
        self.pressure = pressure
        guard case .shown(let moves) = phase else { return [] }
        if isReleasing { return release() }
        return moves && pressure == .severe ? [.releaseFrames] : []
    }

    private mutating func refetch(_ fetch: Fetch) -> [Action] {
        phase = .asking(fetch, isNew: false)
        return [.fetch(fetch, disposal: .cancel)]
    }

    private mutating func release() -> [Action] {
        let actions: [Action] = phase == .shown(moves: true) ? [.stop] : []
        phase = .waiting
        showsPicture = false
        return actions + showPlaceholder()
    }

    // MARK: What the call tells

    /// The call has been made, and is not answered yet.
    mutating func began() -> [Action] {
        guard case .asking(let fetch, let isNew) = phase else { return [] }
        phase = .loading(fetch)
        let placeholder = isNew ? showPlaceholder() : []
        return placeholder + showActivity(fetch == .cached ? nil : activity ?? DisplayActivity())
    }

    mutating func preview(_ image: Image) -> [Action] {
        guard case .loading = phase, !isReleasing else { return [] }
        showsPicture = true
        return [.show(.preview(image), .none)]
    }

    /// - Parameter change: what is known anew.
    mutating func progress(_ change: (inout DisplayActivity) -> Void) -> [Action] {
        guard case .loading(let fetch) = phase, fetch != .cached else { return [] }
        var new = activity ?? DisplayActivity()
        change(&new)
        return showActivity(new)
    }

    /// The call is over.
    mutating func end(_ result: Result<ImageResponse, DipperError>) -> [Action] {
        let fetch: Fetch
        switch phase {
        case .loading(let current), .asking(let current, _): fetch = current
        case .idle, .waiting, .shown: return []
        }
        switch result {
        case .success(let response): return arrive(response)
        case .failure(let error) where fetch == .cached && error == .notCached:
            // It is a miss, not the end.
            let actions = if case .asking(_, isNew: true) = phase { showPlaceholder() } else { [Action]() }
            phase = .waiting
            return actions
        case .failure(let error):
            let isNew = if case .asking(_, isNew: true) = phase { true } else { false }
            phase = .idle
            var actions = showActivity(nil)
            if let failure = options.failure, error != .cancelled {
                showsPicture = false
                actions.append(.show(.failure(failure), .none))
            } else if isNew {
                actions += showPlaceholder()
            }
            return actions + [.complete(result)]
        }
    }

    private mutating func arrive(_ response: ImageResponse) -> [Action] {
        var actions = showActivity(nil)
        if isReleasing {
            phase = .waiting
        } else {
            let isAtOnce = response.source == .memory && !options.transitionsAlways || presence != .visible
            actions += show(response.image, isAtOnce ? .none : options.transition)
        }
        return actions + [.complete(.success(response))]
    }

    /// A newer picture has come in place of one that was out of date.
    mutating func renew(_ image: Image) -> [Action] {
        guard case .shown(let moves) = phase else { return [] }
        return (moves ? [.stop] : []) + show(image, presence == .visible ? options.transition : .none)
    }

    // MARK: Showing

    private mutating func show(_ image: Image, _ transition: ImageTransition) -> [Action] {
        let moves = image.animation != nil && options.playsAnimations
        phase = .shown(moves: moves)
        showsPicture = true
        let play: [Action] = moves ? [.play(image)] + (presence == .visible ? [] : [.pause]) : []
        return [.show(.image(image), transition)] + play
    }

    private mutating func showPlaceholder() -> [Action] {
        if options.keepsCurrentImage, showsPicture { return [] }
        showsPicture = false
        return [.show(placeholder.map(DisplayContent.placeholder) ?? .nothing, .none)]
    }

    private mutating func showActivity(_ new: DisplayActivity?) -> [Action] {
        guard new != activity else { return [] }
        activity = new
        return [.activity(new)]
    }
}
