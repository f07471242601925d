/// The pictures that are being looked for on disk, or made. A value: who asks for one that is under way finds it, also at
/// the moment at which the look at the disk becomes the making of the picture.
struct UnderWay {
    private var looks: [LookName: Look] = [:]
    /// Looks so far.
    private var lookNumber = 0
    /// Pictures that are being made. The latest work for a name counts, an older one goes on for those who wait for it.
    private(set) var works: [CacheKey: DecodeWork] = [:]

    /// Names a look at the disk: its purpose, and the key that is looked for.
    struct LookName: Hashable {
        enum Purpose {
            /// Whether there are bytes for what was asked for, or something smaller is to be fetched.
            case decision
            /// A picture that is processed already.
            case picture
        }

        let purpose: Purpose
        /// The name of the picture in memory.
        let key: CacheKey
    }

    /// A look at the disk, for all who wait for it.
    struct Look {
        /// Tells it from others for the same name.
        let number: Int
        fileprivate(set) var waiting = Wishes<ImageTask, Wish>()
        /// Takes it back and moves it; `nil` until it has its place in the queue.
        fileprivate(set) var lookUp: LookUp?
    }

    /// The next step of a call.
    enum Step {
        /// The call joins this work, if that will do.
        case join(DecodeWork)
        /// The call waits for a look at the disk that another one has begun.
        case wait
        /// The call begins the look with this number.
        case look(Int)
        /// The call asks for the bytes.
        case fetch
    }

    /// A call begins.
    /// - Parameters:
    ///   - looks: whether the call looks at the disk for a picture that is processed already.
    ///   - refused: a work that will not do for it.
    mutating func enter(_ task: ImageTask, looks isLooking: Bool, refused: DecodeWork?) -> Step {
        if let work = works[task.memoryKey], work !== refused { return .join(work) }
        guard isLooking else { return .fetch }
        return wait(task, for: .picture).map { .look($0) } ?? .wait
    }

    /// A call waits for a look at the disk.
    /// - Returns: the number of the look, if the call begins it.
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

    /// The tasks that wait for a look at the disk, the oldest first.
    func lookers(for name: LookName, _ number: Int) -> [ImageTask] {
        looks[name]?.number == number ? looks[name]?.waiting.all ?? [] : []
    }

    /// A look in the queue, and how urgent it is now.
    func position(of name: LookName, _ number: Int) -> (lookUp: LookUp, wish: Wish)? {
        guard looks[name]?.number == number, let lookUp = looks[name]?.lookUp,
            let wish = looks[name]?.waiting.strongest
        else { return nil }
        return (lookUp, wish)
    }

    /// A look at the disk has its place in the queue. False if nobody waits for it any more.
    mutating func place(_ lookUp: LookUp, for name: LookName, _ number: Int) -> Bool {
        guard looks[name]?.number == number else { return false }
        looks[name]?.lookUp = lookUp
        return true
    }

    /// The effect of a changed task on the look that it waits for.
    enum LookChange {
        case none
        /// Nobody waits for the look any more.
        case drop(Look)
        /// The look with this number may belong in another place.
        case move(LookName, Int)
    }

    /// A task that may wait for a look at the disk has ended, or is as urgent as it is now.
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

    /// A look has come to its end: in the same moment the work that follows takes its place.
    /// - Returns: the look; `nil` if nobody waits for it any more.
    mutating func looked(for name: LookName, _ number: Int, _ work: DecodeWork? = nil) -> Look? {
        guard looks[name]?.number == number else { return nil }
        if let work, works[name.key] == nil { works[name.key] = work }
        return looks.removeValue(forKey: name)
    }

    /// Puts work in the place of another one, or of none; not if there is a third meanwhile.
    mutating func put(_ work: DecodeWork, insteadOf other: DecodeWork?) -> Bool {
        guard works[work.memoryKey] === other else { return false }
        works[work.memoryKey] = work
        return true
    }

    /// - Returns: the work, if no newer work has taken its place.
    mutating func remove(_ work: DecodeWork) -> DecodeWork? {
        works[work.memoryKey] === work ? works.removeValue(forKey: work.memoryKey) : nil
    }
}
