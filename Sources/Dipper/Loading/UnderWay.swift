/// The pictures that are being looked for on disk, or made. A value.
///
/// A call for such a picture always finds the look or the work, even at the moment when the look ends and the work
/// begins.
struct UnderWay {
    private var looks: [LookName: Look] = [:]
    /// The number of looks so far.
    private var lookNumber = 0
    /// The pictures that are being made, by memory key. The table has the latest work; earlier work continues for the
    /// tasks that wait for it.
    private(set) var works: [CacheKey: DecodeWork] = [:]

    /// The name of a look at the disk: its purpose, and the memory key of the picture.
    struct LookName: Hashable {
        enum Purpose {
            /// A look for the bytes of the requested source, which decides whether a smaller source is loaded.
            case decision
            /// A look for a processed picture.
            case picture
        }

        let purpose: Purpose
        /// The memory key of the picture.
        let key: CacheKey
    }

    /// A look at the disk, for all tasks that wait for it.
    struct Look {
        /// Distinguishes the look from others with the same name.
        let number: Int
        fileprivate(set) var waiting = Wishes<ImageTask, Wish>()
        /// Cancels or moves the look; `nil` until the look has its place in the queue.
        fileprivate(set) var lookUp: LookUp?
    }

    /// The next step of a call.
    enum Step {
        /// The call joins this work, if that is good enough.
        case join(DecodeWork)
        /// The call waits for a look at the disk that another call has begun.
        case wait
        /// The call begins the look with this number.
        case look(Int)
        /// The call fetches the bytes.
        case fetch
    }

    /// Returns the next step of a call that begins.
    /// - Parameters:
    ///   - looks: whether the call looks for a processed picture on disk.
    ///   - refused: work that is not good enough for the call.
    mutating func enter(_ task: ImageTask, looks isLooking: Bool, refused: DecodeWork?) -> Step {
        if let work = works[task.memoryKey], work !== refused { return .join(work) }
        guard isLooking else { return .fetch }
        return wait(task, for: .picture).map { .look($0) } ?? .wait
    }

    /// Makes a call wait for a look at the disk.
    /// - Returns: the number of the look, if the call must begin it.
    mutating func wait(_ task: ImageTask, for purpose: LookName.Purpose) -> Int? {
        let name = LookName(purpose: purpose, key: task.memoryKey)
        let isFirst = looks[name] == nil
        if isFirst {
            lookNumber += 1
            looks[name] = Look(number: lookNumber)
        }
        looks[name]?.waiting.set(task, task.wish)
        return isFirst ? lookNumber : nil
    }

    /// Returns the tasks that wait for a look at the disk, the oldest first.
    func lookers(for name: LookName, _ number: Int) -> [ImageTask] {
        looks[name]?.number == number ? looks[name]?.waiting.all ?? [] : []
    }

    /// Returns a look that is in the queue, and its present urgency.
    func position(of name: LookName, _ number: Int) -> (lookUp: LookUp, wish: Wish)? {
        guard looks[name]?.number == number, let lookUp = looks[name]?.lookUp,
            let wish = looks[name]?.waiting.strongest
        else { return nil }
        return (lookUp, wish)
    }

    /// Takes note that a look has its place in the queue. Returns `false` if no task waits for the look any more.
    mutating func place(_ lookUp: LookUp, for name: LookName, _ number: Int) -> Bool {
        guard looks[name]?.number == number else { return false }
        looks[name]?.lookUp = lookUp
        return true
    }

    /// The effect of a changed task on the look that it waits for.
    enum LookChange {
        case none
        /// No task waits for the look any more.
        case drop(Look)
        /// The look with this number may belong in another place.
        case move(LookName, Int)
    }

    /// Takes note that a task, which may wait for a look, has ended or changed its urgency.
    mutating func update(_ task: ImageTask) -> LookChange {
        let key = task.memoryKey
        for name in [LookName(purpose: .picture, key: key), LookName(purpose: .decision, key: key)] {
            guard let number = looks[name]?.number, looks[name]?.waiting.contains(task) == true else { continue }
            guard task.hasEnded else {
                looks[name]?.waiting.set(task, task.wish)
                return .move(name, number)
            }
            looks[name]?.waiting.remove(task)
            guard looks[name]?.waiting.isEmpty == true else { return .move(name, number) }
            return looks.removeValue(forKey: name).map { .drop($0) } ?? .none
        }
        return .none
    }

    /// Ends a look. In the same step the work that follows takes its place.
    /// - Returns: the look; `nil` if no task waits for it any more.
    mutating func looked(for name: LookName, _ number: Int, _ work: DecodeWork? = nil) -> Look? {
        guard looks[name]?.number == number else { return nil }
        if let work, works[name.key] == nil { works[name.key] = work }
        return looks.removeValue(forKey: name)
    }

    /// Puts work in the place of other work, or of none. Returns `false`, and changes nothing, if the table has
    /// different work.
    mutating func put(_ work: DecodeWork, insteadOf other: DecodeWork?) -> Bool {
        guard works[work.memoryKey] === other else { return false }
        works[work.memoryKey] = work
        return true
    }

    /// Removes work from the table.
    /// - Returns: the work, unless newer work has taken its place.
    mutating func remove(_ work: DecodeWork) -> DecodeWork? {
        works[work.memoryKey] === work ? works.removeValue(forKey: work.memoryKey) : nil
    }
}
