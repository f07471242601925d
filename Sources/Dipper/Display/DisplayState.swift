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
        /// Nobody sees it, and others fetch what it will show.
        case away
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
        /// Nothing is wanted, or it cannot be had.
        case idle
        /// It could not be had, and may be another time.
        case failed
        /// A picture is wanted, and nothing is done about it.
        case waiting
        /// A call is about to be made.
        case asking(Fetch, isNew: Bool)
        case loading(Fetch)
        /// - Parameter isOld: it is out of date, and is asked for anew when someone looks.
        case shown(moves: Bool, isOld: Bool)
    }

    private(set) var presence = Presence.visible
    private var phase = Phase.idle
    private var options = DisplayOptions()
    private var placeholder: Placeholder?
    private var pressure: MemoryPressure
    /// The request leaves it to the cache where the picture comes from.
    private var mayGlimpse = true
    /// Part of the picture at least can be seen, or one before it.
    private var showsPicture = false
    private var glimpse: Image?
    /// The pixels of the picture that is shown, as long as anyone has them.
    private weak var pixels: PixelStorage?
    /// The player begins with the frame that is shown already.
    private var repeatsFrame = false
    private(set) var activity: DisplayActivity?

    init(pressure: MemoryPressure = .normal) {
        self.pressure = pressure
    }

    private var isReleasing: Bool {
        pressure != .normal && (presence == .offScreen || presence == .away) && options.releasesUnderPressure
    }

    private var moves: Bool {
        if case .shown(moves: true, _) = phase { true } else { false }
    }

    // MARK: What is wanted

    /// Another picture is wanted, or none, by a display that may be somewhere else.
    /// - Parameters:
    ///   - mayGlimpse: whether the cache alone may answer.
    ///   - glimpse: what the cache had, to be shown in place of a placeholder.
    mutating func set(
        isWanted: Bool, _ placeholder: Placeholder?, _ options: DisplayOptions, _ presence: Presence,
        mayGlimpse: Bool = true, glimpse: Image? = nil
    ) -> [Action] {
        let actions: [Action] = moves ? [.stop] : []
        let disposal = self.options.abandonment
        let isLoading =
            switch phase {
            case .asking, .loading: true
            default: false
            }
        self.presence = presence
        self.placeholder = placeholder
        self.options = options
        self.mayGlimpse = mayGlimpse
        self.glimpse = glimpse
        pixels = nil
        let fetch: Fetch? =
            switch presence {
            case _ where !isWanted: nil
            case .visible: .urgent
            case .passing: mayGlimpse ? .cached : nil
            case .offScreen: options.loadsOffScreen ? .slow : nil
            case .away: nil
            }
        if let fetch {
            phase = .asking(fetch, isNew: true)
            return actions + [.fetch(fetch, disposal: disposal)]
        }
        phase = isWanted ? .waiting : .idle
        // What is kept is kept for a picture that comes.
        if !isWanted { showsPicture = false }
        let end: [Action] = isWanted ? [] : [.complete(.failure(.noSource))]
        return actions + (isLoading ? [.dispose(disposal)] : []) + showActivity(nil) + showPlaceholder() + end
    }

    /// The picture is not wanted any more; what is shown stays.
    mutating func cancel() -> [Action] {
        var actions: [Action] = []
        switch phase {
        case .idle, .failed, .shown: return []
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
        var actions = isReleasing ? release() : []
        switch (phase, new) {
        case (.waiting, .visible), (.failed, .visible), (.loading(.slow), .visible), (.loading(.cached), .visible),
            (.shown(_, isOld: true), .visible):
            return actions + refetch(.urgent)
        case (.waiting, .passing) where mayGlimpse: return actions + refetch(.cached)
        case (.loading(.urgent), .passing), (.loading(.urgent), .offScreen):
            phase = .loading(.slow)
            actions.append(.demote)
        case (.loading(.cached), .offScreen), (.loading, .away):
            phase = .waiting
            actions.append(.dispose(.cancel))
            actions += showActivity(nil)
        case (.shown(moves: true, _), _): actions.append(new == .visible ? .resume : .pause)
        default: break
        }
        return actions
    }

    /// The system is short of memory, or no longer.
    mutating func press(_ pressure: MemoryPressure) -> [Action] {
        self.pressure = pressure
        if isReleasing { return release() }
        // One that is on screen would have to decode all frames again.
        return moves && presence != .visible && pressure == .severe ? [.releaseFrames] : []
    }

    private mutating func refetch(_ fetch: Fetch) -> [Action] {
        let stop: [Action] = moves ? [.stop] : []
        phase = .asking(fetch, isNew: false)
        return stop + [.fetch(fetch, disposal: .cancel)]
    }

    /// Lets go of what is shown.
    private mutating func release() -> [Action] {
        guard showsPicture else { return [] }
        let actions: [Action] = moves ? [.stop] : []
        if case .shown = phase { phase = .waiting }
        showsPicture = false
        return actions + showPlaceholder()
    }

    // MARK: What the call tells

    /// The call has been made, and is not answered yet.
    mutating func began() -> [Action] {
        guard case .asking(let fetch, let isNew) = phase else { return [] }
        phase = .loading(fetch)
        let placeholder = isNew ? showPlaceholder() : []
        let new = isNew ? DisplayActivity() : activity ?? DisplayActivity()
        return placeholder + showActivity(fetch == .cached ? nil : new)
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
        case .idle, .failed, .waiting, .shown: return []
        }
        switch result {
        case .success(let response): return arrive(response, isGlimpse: fetch == .cached)
        case .failure(let error) where fetch == .cached && error == .notCached:
            // It is a miss, not the end.
            let actions = if case .asking(_, isNew: true) = phase { showPlaceholder() } else { [Action]() }
            phase = .waiting
            return actions
        case .failure(let error):
            let isNew = if case .asking(_, isNew: true) = phase { true } else { false }
            phase = error.mayPass ? .failed : .idle
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

    private mutating func arrive(_ response: ImageResponse, isGlimpse: Bool) -> [Action] {
        var actions = showActivity(nil)
        if isReleasing {
            phase = .waiting
            showsPicture = false
            actions += showPlaceholder()
        } else {
            let isAtOnce = response.source == .memory && !options.transitionsAlways || presence != .visible
            actions += show(response.image, isAtOnce ? .none : options.transition)
            if isGlimpse, response.source == .stale {
                phase = .shown(moves: moves, isOld: true)
                return actions
            }
        }
        return actions + [.complete(.success(response))]
    }

    /// A newer picture has come in place of one that was out of date, or the word that it is the newest.
    mutating func renew(_ response: ImageResponse) -> [Action] {
        guard case .shown = phase, response.source != .revalidated else { return [] }
        return show(response.image, presence == .visible ? options.transition : .none)
    }

    /// The next frame of the picture that is shown is due.
    mutating func advance(to frame: Image, _ index: Int) -> [Action] {
        let isShown = exchange(&repeatsFrame, with: false) && index == 0
        return moves && !isShown ? [.show(.frame(frame), .none)] : []
    }

    // MARK: Showing

    private mutating func show(_ image: Image, _ transition: ImageTransition) -> [Action] {
        glimpse = nil
        let isSame = showsPicture && pixels === image.storage
        // It goes on as it is.
        if isSame, moves { return [] }
        let stop: [Action] = moves ? [.stop] : []
        let plays = image.animation != nil && options.playsAnimations
        phase = .shown(moves: plays, isOld: false)
        showsPicture = true
        pixels = image.storage
        repeatsFrame = options.animation.processors.isEmpty && !isSame
        let play: [Action] = plays ? [.play(image)] + (presence == .visible ? [] : [.pause]) : []
        return stop + (isSame ? [] : [.show(.image(image), transition)]) + play
    }

    private mutating func showPlaceholder() -> [Action] {
        if let glimpse = exchange(&glimpse, with: nil) {
            showsPicture = true
            return [.show(.preview(glimpse), .none)]
        }
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
