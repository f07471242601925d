import DipperTesting
import Testing

@testable import Dipper
@testable import DipperData

@Suite("What a display does next", .timeLimit(.minutes(2)))
struct DisplayStateTests {
    private let picture = Image.sample()

    private func state(_ presence: DisplayState.Presence) -> DisplayState {
        var state = DisplayState()
        _ = state.set(isWanted: true, nil, DisplayOptions(), presence)
        _ = state.began()
        return state
    }

    private func response(_ source: ResponseSource = .network) -> ImageResponse {
        ImageResponse(picture, source: source, info: EntryInfo(url: "", stored: 0))
    }

    private func names(_ actions: [DisplayState.Action]) -> [String] {
        actions.map { action in
            switch action {
            case .fetch(let fetch, let disposal): "fetch \(fetch), old \(disposal)"
            case .show(.nothing, _): "nothing"
            case .show(.placeholder, _): "placeholder"
            case .show(_, let transition): transition == .none ? "image" : "image, \(transition)"
            case .activity(let activity): activity == nil ? "no activity" : "activity"
            case .dispose(let disposal): "dispose \(disposal)"
            case .complete(.success): "there"
            case .complete(.failure(let error)): error.shortDescription
            default: "\(action)"
            }
        }
    }

    @Test(
        "moving about changes the call that is under way, and makes no second one",
        arguments: [
            (DisplayState.Presence.visible, DisplayState.Presence.passing, ["demote"]),
            (.visible, .offScreen, ["demote"]),
            (.passing, .visible, ["fetch urgent, old cancel"]),
            (.passing, .offScreen, ["dispose cancel"]),
            (.offScreen, .visible, ["fetch urgent, old cancel"]),
            (.offScreen, .passing, []),
            (.visible, .away, ["dispose cancel", "no activity"]),
            (.passing, .away, ["dispose cancel"]),
            (.away, .visible, ["fetch urgent, old cancel"]),
            (.away, .passing, ["fetch cached, old cancel"]),
            (.away, .offScreen, []),
        ])
    func moves(from: DisplayState.Presence, to: DisplayState.Presence, expected: [String]) {
        var state = state(from)
        #expect(names(state.move(to: from)) == [])
        #expect(names(state.move(to: to)) == expected)
        #expect(state.presence == to)
    }

    @Test(
        "while the program is hidden, a moving picture that is off screen lets go of its frames, and the picture stays")
    func hidden() {
        var moving = picture
        moving.animation = .still(picture)
        var state = state(.visible)
        _ = state.end(.success(ImageResponse(moving, source: .network, info: EntryInfo(url: "", stored: 0))))
        #expect(names(state.hide(true)).isEmpty, "it is on screen, as far as the display knows")
        #expect(names(state.move(to: .offScreen)) == ["pause", "releaseFrames"])
        #expect(names(state.move(to: .visible)) == ["resume"])
        #expect(names(state.hide(false)).isEmpty && names(state.move(to: .offScreen)) == ["pause"])
        #expect(names(state.hide(true)) == ["releaseFrames"])
    }

    @Test("another size is shown until there is at least part of the picture, and is no reason to keep a picture back")
    func otherSize() {
        let small = Image.sample(4, 3), partial = Image.sample(alpha: 100)
        var state = DisplayState()
        _ = state.set(isWanted: true, nil, DisplayOptions(), .visible)
        #expect(names(state.began(small)) == ["image", "activity"])
        #expect(names(state.show(inPlace: picture)).isEmpty, "there is one already")
        #expect(names(state.preview(partial)).isEmpty && names(state.preview(picture)) == ["image"])
        #expect(names(state.end(.success(response()))) == ["no activity", "image", "there"])
        _ = state.set(isWanted: true, nil, DisplayOptions(), .visible)
        #expect(names(state.began()) == ["nothing", "activity"] && names(state.show(inPlace: small)) == ["image"])
        #expect(names(state.end(.success(response()))) == ["no activity", "image", "there"])
        #expect(names(state.show(inPlace: small)).isEmpty, "it comes too late")
    }

    @Test("a transition is for pictures that come while someone looks")
    func transitions() {
        let fade = DisplayOptions().with(\.transition, .fade(.seconds(1)))
        for (presence, source, always, fades) in [
            (DisplayState.Presence.visible, ResponseSource.network, false, true), (.visible, .disk, false, true),
            (.visible, .memory, false, false), (.visible, .memory, true, true), (.offScreen, .network, true, false),
            (.passing, .disk, false, false),
        ] {
            var state = DisplayState()
            _ = state.set(isWanted: true, nil, fade.with(\.transitionsAlways, always), presence)
            _ = state.began()
            let shown = names(state.end(.success(response(source)))).filter { $0.hasPrefix("image") }
            #expect(shown == [fades ? "image, \(ImageTransition.fade(.seconds(1)))" : "image"])
        }
    }

    @Test("short of memory, what nobody sees is let go of, previews too, unless the options keep it")
    func pressure() {
        var late = state(.visible)
        #expect(names(late.press(.moderate)) == [])
        _ = late.move(to: .offScreen)
        #expect(names(late.end(.success(response()))) == ["no activity", "nothing", "there"])
        #expect(names(late.move(to: .visible)) == ["fetch urgent, old cancel"])
        var previewed = state(.visible)
        _ = previewed.preview(picture)
        _ = previewed.move(to: .offScreen)
        #expect(names(previewed.press(.severe)) == ["nothing"] && names(previewed.press(.moderate)) == [])
        var keeping = DisplayState()
        _ = keeping.press(.severe)
        _ = keeping.set(isWanted: true, nil, DisplayOptions().with(\.releasesUnderPressure, false), .offScreen)
        _ = keeping.began()
        #expect(names(keeping.end(.success(response()))) == ["no activity", "image", "there"])
    }

    @Test("what failed for a while is tried again when the display appears; what cannot be had is not")
    func failures() {
        for (error, again) in [(DipperError.unreachable, ["fetch urgent, old cancel"]), (.status(404), [])] {
            var state = state(.visible)
            #expect(names(state.end(.failure(error))) == ["no activity", error.shortDescription])
            _ = state.move(to: .offScreen)
            #expect(names(state.move(to: .visible)) == again)
        }
        var broken = state(.passing)
        #expect(names(broken.end(.failure(.undecodable))) == ["undecodable"], "a glimpse of a broken file ends it")
    }

    @Test("a glimpse that is out of date is shown, and asked for anew once the display stays")
    func oldGlimpse() {
        var state = state(.passing)
        #expect(names(state.end(.success(response(.stale)))) == ["image"])
        #expect(names(state.move(to: .visible)) == ["fetch urgent, old cancel"])
        #expect(names(state.began()) == ["activity"])
        #expect(names(state.end(.success(response(.revalidated)))) == ["no activity", "there"], "it was the newest")
        // A request that wants it from the server is left alone until then.
        var fresh = DisplayState()
        #expect(names(fresh.set(isWanted: true, nil, DisplayOptions(), .passing, mayGlimpse: false)) == ["nothing"])
        #expect(names(fresh.move(to: .visible)) == ["fetch urgent, old cancel"])
    }
}
