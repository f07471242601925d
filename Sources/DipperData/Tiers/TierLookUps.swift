import Foundation

/// A tier of the library's own that lives on the loop: a look-up there takes no other thread.
package protocol LoopTier: Tier {
    /// Looks up the record of a name.
    /// - Parameter answer: called once, perhaps before this method returns; ``Tier/record(named:)`` says with what.
    @Loop func find(_ name: String, _ answer: @escaping @Loop (Result<Data?, DipperError>) -> Void)
}

/// The look-ups of a cache in the program's own tiers: a few at a time, urgent ones first, each question to a tier within
/// a time limit.
@Loop
final class TierLookUps: LoopClient {
    /// Must call `ended` once.
    typealias LookUp = @Loop (_ ended: @escaping @Loop () -> Void) -> Void
    /// Called once, with what the tier has answered; with `nil` if it is not asked, because the cache is shut down.
    typealias Answer = @Loop (Result<Data?, any Error>?) -> Void

    @Loop
    private final class Question {
        let due: Duration
        /// `nil` once it has been answered.
        var answer: Answer?
        var task: Task<Void, Never>?

        init(due: Duration, _ answer: @escaping Answer) { (self.due, self.answer) = (due, answer) }
    }

    private static let most = 32

    private let timeLimit: Duration
    private let time: TimeSource
    private var underWay = 0
    private var urgent = Deque<LookUp>()
    private var others = Deque<LookUp>()
    /// The questions that tiers have not answered.
    private var questions: [Question] = []
    private var seat: LoopSeat?
    /// Whether the loop will look at the time limits.
    private var isArmed = false
    private var sleeper: Task<Void, Never>?
    private var isClosed = false

    nonisolated init(timeLimit: Duration, _ time: TimeSource) {
        // Clocks trap if a sum does not fit.
        (self.timeLimit, self.time) = (min(timeLimit, .seconds(1_000_000_000)), time)
    }

    /// Begins a look-up at once, or after others.
    func begin(isUrgent: Bool, _ lookUp: @escaping LookUp) {
        if underWay < Self.most {
            underWay += 1
            run(lookUp)
        } else if isUrgent {
            urgent.append(lookUp)
        } else {
            others.append(lookUp)
        }
    }

    private func run(_ lookUp: LookUp) {
        lookUp {
            guard let next = self.urgent.popFirst() ?? self.others.popFirst() else { return self.underWay -= 1 }
            // Thousands may end at once while a tier rests.
            Loop.post { self.run(next) }
        }
    }

    // MARK: Questions

    func ask(_ tier: any LoopTier, for name: String, _ answer: @escaping Answer) {
        if isClosed { return answer(nil) }
        let question = Question(due: time.now() + timeLimit, answer)
        tier.find(name) { result in self.end(question, result.mapError { $0 as any Error }) }
        if question.answer != nil { wait(for: question) }
    }

    /// Asks a tier of the program, whose code runs on Swift's threads.
    func ask(_ tier: any Tier, for name: String, _ answer: @escaping Answer) {
        if isClosed { return answer(nil) }
        let question = Question(due: time.now() + timeLimit, answer)
        wait(for: question)
        question.task = Task.detached {
            let result: Result<Data?, any Error>
            do { result = .success(try await tier.record(named: name)) } catch { result = .failure(error) }
            Loop.post(handsOver: true) { self.end(question, result) }
        }
    }

    private func end(_ question: Question, _ result: Result<Data?, any Error>?) {
        guard let answer = exchange(&question.answer, with: nil) else { return }
        question.task?.cancel()
        if let place = questions.firstIndex(where: { $0 === question }) {
            questions.swapAt(place, questions.count - 1)
            questions.removeLast()
        }
        // The loop's own clock is left alone: a turn too many costs less.
        if questions.isEmpty, let sleeper = exchange(&sleeper, with: nil) {
            sleeper.cancel()
            isArmed = false
        }
        answer(result)
    }

    // MARK: Time limits

    private func wait(for question: Question) {
        questions.append(question)
        if exchange(&isArmed, with: true) { return }
        if seat == nil { seat = Loop.add(self) }
        seat?.wake()
    }

    func ready(_ descriptor: Int32, _ events: UInt32) {}

    func turn() -> ContinuousClock.Instant? {
        let now = time.now()
        for question in questions where question.due <= now { end(question, .failure(DipperError.timedOut)) }
        sleeper?.cancel()
        sleeper = nil
        let due = questions.lazy.map { $0.due }.min()
        isArmed = due != nil
        guard let due else { return nil }
        if time.isReal { return .now + (due - now) }
        // A clock that is not the system's wakes the loop by itself.
        sleeper = Task.detached { [time] in
            try? await time.sleep(due)
            if !Task.isCancelled { Loop.post { self.seat?.wake() } }
        }
        return nil
    }

    /// Nobody waits any more.
    func close() {
        isClosed = true
        for question in questions { end(question, nil) }
        seat?.leave()
        seat = nil
    }
}
