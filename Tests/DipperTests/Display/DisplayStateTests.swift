import DipperTesting
import Testing

@testable import Dipper
@testable import DipperData

@Suite("What a display does next", .timeLimit(.minutes(5)))
struct DisplayStateTests {
    private let picture = Image.sample()

    private func state(_ presence: DisplayState.Presence, pressure: MemoryPressure = .normal) -> DisplayState {
        var state = DisplayState(pressure: pressure)
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
            case .demote: "demote"
            case .dispose(let disposal): "dispose \(disposal)"
            case .show(let content, let transition):
                switch content {
                case .nothing: "nothing"
                case .placeholder: "placeholder"
                case .failure: "failure"
                case .image, .frame, .preview: transition == .none ? "image" : "image, \(transition)"
                }
            case .activity(let activity): activity == nil ? "no activity" : "activity"
            case .play: "play"
            case .pause: "pause"
            case .resume: "resume"
            case .stop: "stop"
            case .releaseFrames: "release frames"
            case .complete(.success): "there"
            case .complete(.failure(let error)): error.shortDescription
            }
        }
    }

    @Test("how a picture is asked for depends on where the display is")
    func fetches() {
        let expected: [DisplayState.Presence: String] = [
            .visible: "fetch urgent, old moveToSlowQueue", .passing: "fetch cached, old moveToSlowQueue",
            .offScreen: "fetch slow, old moveToSlowQueue", .away: "nothing",
        ]
        for presence in DisplayState.Presence.allCases {
            var state = DisplayState()
            #expect(names(state.set(isWanted: true, nil, DisplayOptions(), presence)) == [expected[presence]])
            if presence == .away { continue }
            // Nobody waits for a glimpse.
            #expect(names(state.began()) == (presence == .passing ? ["nothing"] : ["nothing", "activity"]))
        }
        var state = DisplayState()
        let patient = DisplayOptions().with(\.loadsOffScreen, false)
        #expect(names(state.set(isWanted: true, nil, patient, .offScreen)) == ["nothing"])
        #expect(names(state.move(to: .visible)) == ["fetch urgent, old cancel"])
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

    @Test("there and back again is urgent again")
    func thereAndBack() {
        var state = state(.visible)
        #expect(names(state.move(to: .offScreen)) == ["demote"])
        #expect(names(state.move(to: .visible)) == ["fetch urgent, old cancel"])
        #expect(names(state.began()) == [])
        #expect(names(state.end(.success(response()))) == ["no activity", "image", "there"])
        #expect(names(state.move(to: .offScreen)) == [])
        #expect(names(state.move(to: .visible)) == [])
    }

    @Test("a miss while passing is not the end: the picture is fetched once the display stays")
    func glimpse() {
        var state = state(.passing)
        #expect(names(state.end(.failure(.notCached))) == [])
        #expect(names(state.move(to: .visible)) == ["fetch urgent, old cancel"])

        var other = DisplayState()
        _ = other.set(isWanted: true, nil, DisplayOptions(), .passing)
        #expect(names(other.end(.failure(.notCached))) == ["nothing"])
        #expect(names(other.move(to: .offScreen)) == [])
        #expect(names(other.move(to: .passing)) == ["fetch cached, old cancel"])
        #expect(names(other.end(.success(response(.disk)))) == ["image", "there"])

        // A broken file is the end of it.
        var broken = self.state(.passing)
        #expect(names(broken.end(.failure(.undecodable))) == ["undecodable"])
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

    @Test("short of memory, what nobody sees is let go of, and comes back when it is seen again")
    func pressure() {
        var state = state(.visible)
        _ = state.end(.success(response()))
        #expect(names(state.press(.severe)) == [])
        #expect(names(state.press(.normal)) == [])
        #expect(names(state.move(to: .offScreen)) == [])
        #expect(names(state.press(.moderate)) == ["nothing"])
        #expect(names(state.press(.severe)) == [])
        #expect(names(state.press(.normal)) == [])
        #expect(names(state.move(to: .visible)) == ["fetch urgent, old cancel"])
        #expect(names(state.began()) == ["activity"])
        #expect(names(state.end(.success(response(.disk)))) == ["no activity", "image", "there"])

        // The shortage was there first.
        #expect(names(state.press(.moderate)) == [])
        #expect(names(state.move(to: .offScreen)) == ["nothing"])
        #expect(names(state.move(to: .visible)) == ["fetch urgent, old cancel"])
        _ = state.began()
        // Nobody is there to see it.
        _ = state.move(to: .offScreen)
        #expect(names(state.end(.success(response()))) == ["no activity", "nothing", "there"])

        var keeping = DisplayState(pressure: .severe)
        _ = keeping.set(isWanted: true, nil, DisplayOptions().with(\.releasesUnderPressure, false), .offScreen)
        _ = keeping.began()
        #expect(names(keeping.end(.success(response()))) == ["no activity", "image", "there"])
    }

    @Test("short of memory, what is kept, and a preview, go too; what comes then leaves no older picture")
    func pressureWhileLoading() {
        var state = state(.visible)
        _ = state.preview(picture)
        _ = state.move(to: .offScreen)
        #expect(names(state.press(.severe)) == ["nothing"])
        #expect(names(state.end(.success(response()))) == ["no activity", "nothing", "there"])

        var kept = DisplayState()
        _ = kept.set(isWanted: true, nil, DisplayOptions(), .visible)
        _ = kept.end(.success(response(.memory)))
        let keep = DisplayOptions().with(\.keepsCurrentImage, true).with(\.loadsOffScreen, false)
        _ = kept.set(isWanted: true, nil, keep, .offScreen)
        #expect(names(kept.press(.severe)) == ["nothing"])

        var late = DisplayState(pressure: .moderate)
        _ = late.set(isWanted: true, nil, DisplayOptions(), .offScreen)
        #expect(names(late.end(.success(response(.memory)))) == ["nothing", "there"])
    }

    @Test("nothing wanted shows the placeholder, also where the current picture is kept while loading")
    func nothingKept() {
        let keep = DisplayOptions().with(\.keepsCurrentImage, true)
        var state = DisplayState()
        _ = state.set(isWanted: true, nil, keep, .visible)
        _ = state.end(.success(response(.memory)))
        #expect(names(state.set(isWanted: false, .color(.black), keep, .visible)) == ["placeholder", "no source"])
    }

    @Test("another picture begins with an activity of its own")
    func freshActivity() {
        var state = state(.visible)
        _ = state.progress { $0 = DisplayActivity(fraction: 0.75, isWaiting: true) }
        _ = state.set(isWanted: true, nil, DisplayOptions(), .visible)
        #expect(names(state.began()) == ["nothing", "activity"])
    }

    @Test("what failed for a while is tried again when the display appears; what cannot be had is not")
    func failures() {
        for (error, again) in [(DipperError.unreachable, ["fetch urgent, old cancel"]), (.status(404), [])] {
            var state = state(.visible)
            #expect(names(state.end(.failure(error))) == ["no activity", error.shortDescription])
            _ = state.move(to: .offScreen)
            #expect(names(state.move(to: .visible)) == again)
        }
    }

    @Test("a glimpse that is out of date is shown, and asked for anew once the display stays")
    func oldGlimpse() {
        var state = state(.passing)
        #expect(names(state.end(.success(response(.stale)))) == ["image"])
        #expect(names(state.move(to: .visible)) == ["fetch urgent, old cancel"])
        #expect(names(state.began()) == ["activity"])
        // It was the newest.
        #expect(names(state.end(.success(response(.revalidated)))) == ["no activity", "there"])

        // A request that wants it from the server is left alone until then.
        var fresh = DisplayState()
        #expect(
            names(fresh.set(isWanted: true, nil, DisplayOptions(), .passing, mayGlimpse: false)) == ["nothing"])
        #expect(names(fresh.move(to: .visible)) == ["fetch urgent, old cancel"])
    }

    @Test("what comes too late is not heard")
    func late() {
        var state = state(.visible)
        _ = state.end(.success(response()))
        #expect(names(state.end(.success(response()))) == [])
        #expect(names(state.preview(picture)) == [])
        #expect(names(state.progress { $0.fraction = 0.5 }) == [])
        #expect(names(state.began()) == [])
        #expect(names(state.cancel()) == [])
        #expect(names(state.renew(response())) == [])
        #expect(
            names(state.renew(ImageResponse(.sample(3, 2), source: .network, info: EntryInfo(url: "", stored: 0)))) == [
                "image"
            ])
        var idle = DisplayState()
        #expect(names(idle.renew(response())) == [])
        #expect(names(idle.cancel()) == [])
        #expect(names(idle.move(to: .offScreen)) == [])
    }

    @Test("setting nothing ends what was under way")
    func nothing() {
        var state = state(.visible)
        #expect(
            names(state.set(isWanted: false, .color(.black), DisplayOptions(), .visible)) == [
                "dispose moveToSlowQueue", "no activity", "placeholder", "no source",
            ])
    }
}
