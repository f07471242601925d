import Dipper
import DipperTesting

enum AnimationGuide {
    static func playing(_ image: Image, _ view: Stage, _ loop: Loop) -> AnimationPlayer {
        let options = AnimationOptions(callbackQueue: .custom { work in loop.runWhenIdle(work) })
        let player = AnimationPlayer(image, options: options)
            .onFrame { frame, _ in view.show(frame) }
        player.start()
        return player
    }

    static func stream(_ player: AnimationPlayer, _ view: Stage) async {
        let frames = player.frames
        player.start()
        for await frame in frames { view.show(frame) }
    }

    static func hooks(_ image: Image, _ view: Stage) -> AnimationPlayer {
        let options = AnimationOptions(loop: .count(3))
        let player = AnimationPlayer(image, options: options)
            .onPrepared { view.hide() }
            .onFrame { frame, _ in view.show(frame) }
            .onLoop { count in view.show("\(count) of 3") }
            .onFinish { view.show("finished") }
            .onFail { error in view.show(error) }
        player.start()
        return player
    }

    static func offScreen(_ player: AnimationPlayer) {
        player.pause()
        player.resume()
    }

    static func shortOfMemory(_ player: AnimationPlayer) {
        player.pause()
        player.releaseBuffer()
    }

    static func delays() -> AnimationOptions {
        let options = AnimationOptions(delays: .atLeast(.milliseconds(20)))
        return options
    }

    static func processors() -> AnimationOptions {
        let options = AnimationOptions(processors: [.downsample(width: 64, height: 64)])
        return options
    }

    static func testing(_ image: Image, _ view: Stage) async throws -> AnimationPlayer {
        let clock = ManualClock()
        let player = AnimationPlayer(image, options: AnimationOptions(clock: clock, callbackQueue: .inPlace))
        player.onFrame { frame, _ in view.show(frame) }.start()
        try await clock.waitForSleepers(1)
        clock.advance(by: .milliseconds(100))
        return player
    }
}
