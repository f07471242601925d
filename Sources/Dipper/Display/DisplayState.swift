/// The state of one display: the content that it shows and the picture that it waits for. A value that decides and does
/// nothing: events go in, and actions come out, which the binding carries out in order on the display's queue.
struct DisplayState {
    enum Presence: Sendable, Hashable, CaseIterable {
        case visible
        /// The display is on screen, but will be gone before a picture could be fetched.
        case passing
        case offScreen
        /// The display is off screen, and a list loader fetches the pictures that it will show.
        case away
    }

    enum Fetch: Sendable, Hashable {
        case urgent
        /// A call that only memory and disk may answer.
        case cached
        case slow
    }

    enum Action {
        /// Replaces the present call, which is disposed of once the new one has been made.
        case fetch(Fetch, disposal: DisplayOptions.Abandonment)
        case demote
        case dispose(DisplayOptions.Abandonment)
        case show(DisplayContent, ImageTransition)
        case activity(DisplayActivity?)
        case play(Image)
        case pause, resume, stop, releaseFrames
        case complete(Result<ImageResponse, DipperError>)
    }

    private enum Phase: Equatable {
        /// No picture is wanted, or it cannot be loaded.
        case idle
        /// The picture could not be loaded, but another attempt may succeed.
        case failed
        /// A picture is wanted, but no call loads it.
        case waiting
        case loading(Fetch)
        /// `isOld`: the picture is out of date, so it is requested again when the display is visible.
        case shown(moves: Bool, isOld: Bool)
    }

    private(set) var presence = Presence.visible
    private var phase = Phase.idle
    /// Whether the picture was set and its call has not begun, so that its placeholder is still to be shown.
    private var isNew = false
    private(set) var options = DisplayOptions()
    private var placeholder: DisplayOptions.Placeholder?
    private var pressure = MemoryPressure.normal
    private var mayGlimpse = true
    /// Whether the display shows at least part of the picture, or an earlier picture.
    private var showsPicture = false
    /// The picture that the cache has, which is shown in place of a placeholder.
    private var glimpse: Image?
    /// The picture in another size, which is shown in place of a placeholder, and of previews that are not complete.
    private var standIn: Image?
    private var isHidden = false
    /// The pixels of the picture that is shown, as long as they are in memory.
    private weak var pixels: PixelStorage?
    /// Whether the player begins with the frame that is shown already.
    private var repeatsFrame = false
    private(set) var activity: DisplayActivity?

    private var isReleasing: Bool {
        pressure != .normal && (presence == .offScreen || presence == .away) && options.releasesUnderPressure
    }

    private var pictureMoves: Bool {
        if case .shown(moves: true, _) = phase { true } else { false }
    }
    /// Whether the placeholder is shown and moves, or the content after a failure.
    private var substituteMoves = false
    private var moves: Bool { pictureMoves || substituteMoves }

    private mutating func stop() -> [Action] {
        defer { substituteMoves = false }
        return moves ? [.stop] : []
    }

    // MARK: Pictures

    mutating func set(
        isWanted: Bool, _ placeholder: DisplayOptions.Placeholder?, _ options: DisplayOptions, _ presence: Presence,
        mayGlimpse: Bool = true, glimpse: Image? = nil
    ) -> [Action] {
        let actions = stop()
        let disposal = self.options.abandonment
        let isLoading = if case .loading = phase { true } else { false }
        self.presence = presence
        self.placeholder = placeholder
        self.options = options
        self.mayGlimpse = mayGlimpse
        self.glimpse = glimpse
        (standIn, pixels) = (nil, nil)
        let fetch: Fetch? =
            switch presence {
            case _ where !isWanted: nil
            case .visible: .urgent
            case .passing: mayGlimpse ? .cached : nil
            case .offScreen: options.loadsOffScreen ? .slow : nil
            case .away: nil
            }
        isNew = fetch != nil
        if let fetch {
            phase = .loading(fetch)
            return actions + [.fetch(fetch, disposal: disposal)]
        }
        phase = isWanted ? .waiting : .idle
        // The current picture is kept only until another one comes, and none will.
        if !isWanted { showsPicture = false }
        let end: [Action] = isWanted ? [] : [.complete(.failure(.noSource))]
        return actions + (isLoading ? [.dispose(disposal)] : []) + showActivity(nil) + showPlaceholder() + end
    }

    mutating func cancel() -> [Action] {
        var actions: [Action] = []
        switch phase {
        case .idle, .failed, .shown: return []
        case .loading: actions.append(.dispose(.cancel))
        case .waiting: break
        }
        phase = .idle
        return actions + showActivity(nil) + [.complete(.failure(.cancelled))]
    }

    // MARK: Presence

    mutating func move(to new: Presence) -> [Action] {
        guard presence != new else { return [] }
        presence = new
        let actions = moved(to: new)
        return actions + (substituteMoves ? resting : [])
    }

    /// The actions for a player that has begun, or goes on.
    private var resting: [Action] { presence == .visible ? [.resume] : isHidden ? [.pause, .releaseFrames] : [.pause] }

    private mutating func moved(to new: Presence) -> [Action] {
        var actions = isReleasing ? release() : []
        switch (phase, new) {
        case (.waiting, .visible), (.failed, .visible), (.loading(.slow), .visible), (.loading(.cached), .visible),
            (.shown(_, isOld: true), .visible):
            return actions + refetch(.urgent)
        case (.waiting, .passing) where mayGlimpse: return actions + refetch(.cached)
        // mutant Display: `assing), (.loading(.urgent), .offScreen):` => `assing):`
        case (.loading(.urgent), .passing), (.loading(.urgent), .offScreen):
            phase = .loading(.slow)
            actions.append(.demote)
        case (.loading(.cached), .offScreen), (.loading, .away):
            phase = .waiting
            actions.append(.dispose(.cancel))
            actions += showActivity(nil)
        case (.shown(moves: true, _), _):
            actions += resting
        default: break
        }
        return actions
    }

    mutating func press(_ pressure: MemoryPressure) -> [Action] {
        self.pressure = pressure
        if isReleasing { return release() }
        // A player that is on screen would have to decode all frames again.
        return moves && presence != .visible && pressure == .severe ? [.releaseFrames] : []
    }

    /// - Parameter isHidden: whether the user sees nothing of the program.
    mutating func hide(_ isHidden: Bool) -> [Action] {
        self.isHidden = isHidden
        return isHidden && moves && presence != .visible ? [.releaseFrames] : []
    }

    private mutating func refetch(_ fetch: Fetch) -> [Action] {
        let actions: [Action] = pictureMoves ? [.stop] : []
        phase = .loading(fetch)
        return actions + [.fetch(fetch, disposal: .cancel)]
    }

    private mutating func release() -> [Action] {
        guard showsPicture else { return [] }
        let actions = stop()
        if case .shown = phase { phase = .waiting }
        showsPicture = false
        standIn = nil
        return actions + showPlaceholder()
    }

    // MARK: News of the call

    /// - Parameter standIn: the picture in another size, if memory has it.
    mutating func began(_ standIn: Image? = nil) -> [Action] {
        guard case .loading(let fetch) = phase else { return [] }
        let new = isNew ? DisplayActivity() : activity ?? DisplayActivity()
        if isNew { self.standIn = isReleasing ? nil : standIn }
        let isShown = exchange(&isNew, with: false)
        let placeholder = isShown ? showPlaceholder() : standIn.map { show(inPlace: $0) } ?? []
        return placeholder + showActivity(fetch == .cached ? nil : new)
    }

    /// Shows the picture in another size, unless the display shows at least part of a picture.
    mutating func show(inPlace standIn: Image) -> [Action] {
        guard case .loading = phase, !isReleasing, !showsPicture else { return [] }
        self.standIn = standIn
        return showPlaceholder()
    }

    mutating func preview(_ image: Image) -> [Action] {
        guard case .loading = phase, !isReleasing, standIn == nil || image.isOpaque else { return [] }
        (showsPicture, pixels) = (true, nil)
        return stop() + [.show(.preview(image), .none)]
    }

    mutating func progress(_ change: (inout DisplayActivity) -> Void) -> [Action] {
        guard case .loading(let fetch) = phase, fetch != .cached else { return [] }
        var new = activity ?? DisplayActivity()
        change(&new)
        return showActivity(new)
    }

    mutating func end(_ result: Result<ImageResponse, DipperError>) -> [Action] {
        guard case .loading(let fetch) = phase else { return [] }
        let isNew = exchange(&self.isNew, with: false)
        switch result {
        case .success(let response): return arrive(response, isGlimpse: fetch == .cached)
        case .failure(let error) where fetch == .cached && error == .notCached:
            // The picture is not cached, but can still be fetched.
            phase = .waiting
            return isNew ? showPlaceholder() : []
        case .failure(let error):
            phase = error.mayPass ? .failed : .idle
            standIn = nil
            var actions = showActivity(nil)
            if let failure = options.failure, error != .cancelled {
                showsPicture = false
                actions += show(failure, as: .failure(failure))
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
            (showsPicture, standIn) = (false, nil)
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

    /// A picture that was out of date has been replaced by a newer one, or confirmed.
    mutating func renew(_ response: ImageResponse) -> [Action] {
        guard case .shown = phase, response.source != .revalidated else { return [] }
        return show(response.image, presence == .visible ? options.transition : .none)
    }

    mutating func advance(to frame: Image, _ index: Int) -> [Action] {
        let isShown = exchange(&repeatsFrame, with: false) && index == 0
        return moves && !isShown ? [.show(.frame(frame), .none)] : []
    }

    // MARK: Showing

    private mutating func show(_ image: Image, _ transition: ImageTransition) -> [Action] {
        (glimpse, standIn) = (nil, nil)
        let isSame = showsPicture && pixels === image.storage
        // The picture is shown already, and its player continues.
        if isSame, pictureMoves { return [] }
        let stop = stop()
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
            return stop() + [.show(.preview(glimpse), .none)]
        }
        if options.keepsCurrentImage, showsPicture {
            standIn = nil
            return []
        }
        showsPicture = standIn != nil
        if let standIn {
            pixels = nil
            return stop() + [.show(.preview(standIn), .none)]
        }
        return show(placeholder, as: placeholder.map(DisplayContent.placeholder) ?? .nothing)
    }

    private mutating func show(_ substitute: DisplayOptions.Placeholder?, as content: DisplayContent) -> [Action] {
        let actions = stop() + [.show(content, .none)]
        guard case .image(let image) = substitute, image.animation != nil, options.playsAnimations else {
            return actions
        }
        (substituteMoves, repeatsFrame) = (true, options.animation.processors.isEmpty)
        return actions + [.play(image)] + (presence == .visible ? [] : [.pause])
    }

    private mutating func showActivity(_ new: DisplayActivity?) -> [Action] {
        guard new != activity else { return [] }
        activity = new
        return [.activity(new)]
    }
}
