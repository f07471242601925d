import Foundation
import Synchronization

/// The helpers that run one program. They are shared by all caches of this process, started when they are needed, and
/// used again and again.
final class DecoderPool: Sendable {
    private struct State {
        /// The helpers that nobody uses, and since when; the latest are the last.
        var idle: [(process: DecoderProcess, since: ContinuousClock.Instant)] = []
        /// The number of all helpers.
        var count = 0
        /// For one that becomes idle.
        var waiting: [DispatchSemaphore] = []
        /// The first message of the first helper. No other one may promise less.
        var greeting: DecoderGreeting?
        /// Why no helper could be started, and until when none is tried, unless one has greeted meanwhile.
        var refusal: (error: DipperError, end: ContinuousClock.Instant)?
        var refused: DipperError? { greeting == nil && refusal.map { .now < $0.end } == true ? refusal?.error : nil }
        /// The time without work after which a helper ends, and whether somebody waits for it to pass.
        var rest = Duration.seconds(30)
        var isWatched = false
    }

    private struct Forks {
        /// As long as there are helpers.
        var server: ForkServer?
        /// Why there is none, and until when none is started.
        var refusal: (error: DipperError, end: ContinuousClock.Instant)?
    }

    /// The number of pictures that one helper decodes.
    private static let mostPictures = 200
    /// The time after which a program that could not be started is tried again.
    private static let pause = Duration.seconds(5)
    private static let pools = Mutex<[String: DecoderPool]>([:])
    let program: String
    private let state = Mutex(State())
    private let forks = Mutex(Forks())
    private let failures = DecoderFailures()
    private let crashes = Atomic(0)
    /// The crashes after which helpers are copies of a new process, so that none can find out, crash by crash, where the next
    /// one has what.
    private static let mostCrashes = 16

    private init(_ program: String) { self.program = program }

    /// Returns the helpers of the program that is found.
    static func of(_ program: URL?) throws(DipperError) -> DecoderPool {
        let path = try DecoderProgram.path(program)
        return pools.withLock { pools in
            let pool = pools[path] ?? DecoderPool(path)
            pools[path] = pool
            return pool
        }
    }

    /// Returns the helpers for a decoder, or `nil` if there are none and this program may decode.
    static func of(_ decoder: String, _ options: DecodeOptions) throws(DipperError) -> DecoderPool? {
        do throws(DipperError) {
            let pool = try of(options.decoderProgram)
            let greeting = try pool.greeting(options)
            guard greeting.decoders.contains(decoder) else {
                throw .notIsolated.with(detail: "'\(pool.program)' has no decoder \(decoder)")
            }
            if options.isolation == .required, !greeting.missing.isEmpty {
                throw .notIsolated.with(detail: "the wall is incomplete: \(greeting.missing.joined(separator: "; "))")
            }
            return pool
        } catch {
            if options.isolation == .required || error.isCancelled { throw error }
            return nil
        }
    }

    /// Returns what the helpers say first. Blocks the thread until the first helper's wall stands.
    func greeting(_ options: DecodeOptions) throws(DipperError) -> DecoderGreeting {
        let (known, refused) = state.withLock { ($0.greeting, $0.refused) }
        if let known { return known }
        if let refused { throw refused }
        let process = try take(nil, options, isSpread: false)
        let greeting = try process.greet()
        give(process)
        return greeting
    }

    // MARK: Decoding

    /// Decodes a picture, as ``ImageDecoder/decode(_:_:)``. Blocks the thread.
    /// - Parameters:
    ///   - decoder: the name of the decoder, which the helper uses whatever else it has.
    ///   - header: what the file's header states: the time of all frames together, and their size.
    func decode(
        _ data: Data, _ options: DecodeOptions, by decoder: String, _ header: (duration: Duration?, size: PixelSize?)
    ) throws(DipperError) -> Image {
        try options.checkCancelled()
        var request = DecoderRequest(.decode)
        (request.options, request.decoder) = (options, decoder)
        request.mostBytes = options.mostBytes(ofStored: header.size)
        var process: DecoderProcess?
        guard let (picture, first) = try ask(request, data, on: &process) else {
            throw .undecodable.with(detail: "there are no frames")
        }
        var image = first
        guard picture.frameCount > 1, !options.firstFrameOnly else { return image }
        // The caller's closure would keep the cache alive.
        var later = options
        later.isCancelled = { false }
        later.preloadsFrames = false
        let isAhead = options.resultBytes(image.byteCount, frames: picture.frameCount, beside: 0) > image.byteCount
        let preloaded = isAhead ? try IsolatedFrames(self, data, options, decoder, like: picture).all() : nil
        let frameCount = preloaded?.count ?? picture.frameCount
        guard frameCount > 1 else { return image }
        image.animation = ImageAnimation(
            frameCount: frameCount, loopCount: picture.loopCount, loopDuration: header.duration,
            fileSize: data.count, storedSize: header.size, limits: options.limits, preloaded: preloaded
        ) { [self, later] context throws(DipperError) in
            var options = later
            options.limits = context.limits
            options.isCancelled = context.isCancelled
            return IsolatedFrames(self, data, options, decoder, like: picture)
        }
        return image
    }

    /// Asks a helper, if possible the given one, which becomes the one that was asked. `nil` after the last frame.
    func ask(
        _ request: DecoderRequest, _ data: Data, on wanted: inout DecoderProcess?
    ) throws(DipperError) -> (picture: DecoderReply.Picture, image: Image)? {
        var request = request
        request.fileSize = data.count
        if failures.includes(data, request) {
            throw .decoderFailed.with(detail: "a helper has failed with these bytes before")
        }
        var sendsFile = request.operation == .decode
        var attempts = 0
        // The first frame of an animation was decoded by a helper.
        var isGiven = request.operation == .frame
        while true {
            let process: DecoderProcess
            do throws(DipperError) {
                process = try take(wanted, request.options, isSpread: request.operation == .frame)
            } catch {
                // The program may decode in place of a helper, but not what may have ended one.
                guard error == .notIsolated, isGiven || failures.includes(data) else { throw error }
                throw .decoderFailed.with(detail: error.detail ?? "there is no other helper")
            }
            if process !== wanted { sendsFile = true }
            let answer: (reply: DecoderReply, pixels: PixelStorage?)
            do throws(DipperError) {
                answer = try process.ask(request, sendsFile ? data : nil)
            } catch {
                let (isGone, fault) = (error == .connectionLost, process.fault)
                discard(process)
                if fault == .file {
                    crashes.add(1, ordering: .relaxed)
                    reserve(request.options)
                }
                wanted = nil
                attempts += 1
                if !isGone {
                    isGiven = true
                    failures.add(data, request, fault)
                }
                // Another one is asked, because this one has not seen the bytes, or somebody has ended it.
                if isGone || fault == .outside, attempts < 3, !failures.includes(data, request) { continue }
                throw isGone ? .decoderFailed.with(detail: "helpers end at once") : error
            }
            failures.remove(data, request)
            wanted = process
            // One that a picture has taken over sees a limited number of others.
            if request.operation == .decode, process.countPicture() > Self.mostPictures {
                discard(process)
            } else {
                give(process)
            }
            switch (answer.reply, answer.pixels) {
            case (.picture(let picture), let pixels?):
                let image = Image(
                    storage: pixels, size: picture.size, rowStride: picture.size.width * 4, isOpaque: picture.isOpaque,
                    scale: request.options.scale)
                return (picture, image)
            case (.failure(let error), _): throw error
            case (.needsFile, _) where !sendsFile: sendsFile = true
            default: return nil
            }
        }
    }

    // MARK: Helpers

    /// Takes a helper out of the pool: the wanted one, as long as it lives, or else the one with the fewest animations,
    /// or a new one. Blocks the thread while all are in use.
    /// - Parameter isSpread: whether a new one is better than one that has animations.
    private func take(
        _ wanted: DecoderProcess?, _ options: DecodeOptions, isSpread: Bool
    ) throws(DipperError) -> DecoderProcess {
        let wanted = wanted.flatMap { $0.hasEnded ? nil : $0 }
        let limit = max(1, options.threads)
        while true {
            let gate = DispatchSemaphore(value: 0)
            let (found, mayStart) = state.withLock { state -> (DecoderProcess?, Bool) in
                func animations(_ index: Int) -> Int { state.idle[index].process.animations.load(ordering: .relaxed) }
                // One whose wall does not stand yet is the last choice.
                func rank(_ index: Int) -> Int { state.idle[index].process.isReady ? animations(index) : .max }
                let index =
                    if let wanted {
                        state.idle.firstIndex { $0.process === wanted }
                    } else {
                        state.idle.indices.reversed().min { rank($0) < rank($1) }
                    }
                let mayStart = wanted == nil && state.count < limit
                if let index, !mayStart || !isSpread || animations(index) == 0 {
                    return (state.idle.remove(at: index).process, false)
                }
                if mayStart {
                    state.count += 1
                    return (nil, true)
                }
                state.waiting.append(gate)
                return (nil, false)
            }
            if mayStart { return try ready(nil) }
            if let found {
                // Somebody may have ended it before its wall stood.
                if let process = try? ready(found) { return process }
                continue
            }
            while gate.wait(timeout: .now() + .milliseconds(50)) == .timedOut { try options.checkCancelled() }
            if wanted?.hasEnded == true { return try take(nil, options, isSpread: isSpread) }
        }
    }

    /// Returns a helper behind its wall, or a new one, which is counted already.
    private func ready(_ known: DecoderProcess?) throws(DipperError) -> DecoderProcess {
        do throws(DipperError) {
            let process = if let known { known } else { try fork() }
            let greeting = try process.greet()
            let first = state.withLock { state in
                state.greeting = state.greeting ?? greeting
                return state.greeting ?? greeting
            }
            guard first.isKept(by: greeting) else {
                process.end()
                throw .notIsolated.with(detail: "'\(program)' is not what it was, or its wall is not")
            }
            return process
        } catch {
            let refused = refuse(error)
            change { $0.count -= 1 }
            throw refused
        }
    }

    /// Has pictures fail at once for a while if no helper has greeted yet. Returns their error.
    private func refuse(_ error: DipperError) -> DipperError {
        let error = error == .notIsolated ? error : .notIsolated.with(detail: error.detail ?? "\(error)")
        state.withLock { $0.refusal = (error, .now + Self.pause) }
        return error
    }

    private func give(_ process: DecoderProcess) {
        change { $0.idle.append((process, .now)) }
        watch()
    }

    /// Ends a helper, and starts another one in its place, whose wall stands when the next picture comes.
    private func discard(_ process: DecoderProcess) {
        process.end()
        start()
    }

    /// Starts a helper that is counted already. Does not wait for its wall.
    private func start() {
        if let next = try? fork() { give(next) } else { change { $0.count -= 1 } }
    }

    /// Starts one helper more than pictures need, because another file may crash its helper too, before the next one's
    /// wall stands.
    private func reserve(_ options: DecodeOptions) {
        let mayStart = state.withLock { state in
            let mayStart = state.count <= max(1, options.threads)
            if mayStart { state.count += 1 }
            return mayStart
        }
        if mayStart { start() }
    }

    /// Returns a new helper, which is counted already. A server that somebody has ended is replaced, once.
    private func fork() throws(DipperError) -> DecoderProcess {
        try forks.withLock { forks throws(DipperError) in
            if crashes.load(ordering: .relaxed) >= Self.mostCrashes {
                crashes.store(0, ordering: .relaxed)
                forks.server = nil
            }
            if let known = forks.server {
                do throws(DipperError) {
                    return try DecoderProcess(program, by: known)
                } catch {
                    guard error == .connectionLost else { throw error }
                    forks.server = nil
                }
            }
            // Who has waited for a server that does not answer does not wait for the next one.
            if let (error, end) = forks.refusal, .now < end { throw error }
            do throws(DipperError) {
                let new = try ForkServer(program)
                let process = try DecoderProcess(program, by: new)
                forks.server = new
                return process
            } catch {
                let error = refuse(error)
                forks.refusal = (error, .now + Self.pause)
                throw error
            }
        }
    }

    private func change(_ body: (inout State) -> Void) {
        let (waiting, count) = state.withLock { state in
            body(&state)
            return (exchange(&state.waiting, with: []), state.count)
        }
        for gate in waiting { gate.signal() }
        guard count == 0 else { return }
        forks.withLock { forks in
            if state.withLock({ $0.count == 0 }) { forks.server = nil }
        }
    }

    // MARK: Rest

    /// The time without work after which a helper ends.
    var rest: Duration {
        get { state.withLock(\.rest) }
        set { state.withLock { $0.rest = newValue } }
    }

    /// Has the helpers without work ended some time later.
    private func watch() {
        let delay = state.withLock { state -> Duration? in
            guard !state.isWatched, let first = state.idle.first else { return nil }
            state.isWatched = true
            return max(.zero, first.since + state.rest - .now)
        }
        guard let delay else { return }
        DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + delay / .seconds(1)) { [self] in
            endRested()
            watch()
        }
    }

    private func endRested() {
        let now = ContinuousClock.now
        let ended = state.withLock { state in
            state.isWatched = false
            let ended = state.idle.filter { $0.since + state.rest <= now }
            state.idle.removeAll { $0.since + state.rest <= now }
            return ended
        }
        for (process, _) in ended { process.end() }
        // Who waits for one of them learns that it has ended.
        change { $0.count -= ended.count }
    }
}
