/// The pictures that are being looked for on disk, or made. A value: who asks for one that is under way finds it, also at
/// the moment at which the look at the disk becomes the making of the picture.
struct UnderWay {
    /// Looks at the disk, by the name of the picture in memory.
    private var looks: [CacheKey: Look] = [:]
    /// Looks so far.
    private var lookNumber = 0
    /// Pictures that are being made. The latest work for a name counts, an older one goes on for those who wait for it.
    private(set) var works: [CacheKey: DecodeWork] = [:]

    /// A look at the disk, for all who wait for it.
    struct Look {
        /// Tells it from others for the same name.
        let number: Int
        fileprivate(set) var waiting = Wishes<ImageTask, Wish>()
        /// Takes it back and moves it; `nil` until it has its place in the queue.
        fileprivate(set) var lookUp: LookUp?
    }

    /// What a call does next.
    enum Step {
        /// It joins this work, if that will do.
        case join(DecodeWork)
        /// It waits for the look at the disk that another call has begun.
        case wait
        /// It is the first, and begins the look with this number.
        case look(Int)
        /// It asks for the bytes.
        case fetch
    }

    /// A call begins.
    /// - Parameters:
    ///   - looks: whether the call looks at the disk for a picture that is processed already.
    ///   - refused: a work that will not do for it.
    mutating func enter(_ task: ImageTask, looks isLooking: Bool, refused: DecodeWork?) -> Step {
        if let work = works[task.memoryKey], work !== refused { return .join(work) }
        guard isLooking else { return .fetch }
        let isFirst = looks[task.memoryKey] == nil
        if isFirst {
            lookNumber += 1
            looks[task.memoryKey] = Look(number: lookNumber)
        }
        looks[task.memoryKey]?.waiting.set(task, task.wish)
        return isFirst ? .look(lookNumber) : .wait
    }

    /// Those who wait for a look at the disk by now, the oldest first.
    func lookers(for key: CacheKey, _ number: Int) -> [ImageTask] {
        looks[key]?.number == number ? looks[key]?.waiting.all ?? [] : []
    }

    /// A look in the queue, and how urgent it is now.
    func position(of key: CacheKey, _ number: Int) -> (lookUp: LookUp, wish: Wish)? {
        guard looks[key]?.number == number, let lookUp = looks[key]?.lookUp, let wish = looks[key]?.waiting.strongest
        else { return nil }
        return (lookUp, wish)
    }

    /// A look at the disk has its place in the queue. False if nobody waits for it any more.
    mutating func place(_ lookUp: LookUp, for key: CacheKey, _ number: Int) -> Bool {
        guard looks[key]?.number == number else { return false }
        looks[key]?.lookUp = lookUp
        return true
    }

    /// What follows from a change of a task's.
    enum LookChange {
        case none
        /// Nobody waits for the look any more.
        case drop(Look)
        /// The look with this number may belong in another place.
        case move(Int)
    }

    /// A task that may wait for a look at the disk has ended, or is as urgent as it is now.
    mutating func update(_ task: ImageTask) -> LookChange {
        let key = task.memoryKey
        guard let number = looks[key]?.number, looks[key]?.waiting.contains(task) == true else { return .none }
        guard task.hasEnded else {
            looks[key]?.waiting.set(task, task.wish)
            return .move(number)
        }
        looks[key]?.waiting.remove(task)
        guard looks[key]?.waiting.isEmpty == true else { return .move(number) }
        return looks.removeValue(forKey: key).map { .drop($0) } ?? .none
    }

    /// The look has come to its end: in the same moment the work that follows takes its place.
    /// - Returns: the look; `nil` if nobody waits for it any more.
    mutating func looked(for key: CacheKey, _ number: Int, _ work: DecodeWork?) -> Look? {
        guard looks[key]?.number == number else { return nil }
        if let work, works[key] == nil { works[key] = work }
        return looks.removeValue(forKey: key)
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
