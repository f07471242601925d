/// What the store may give for a key after a power cut, by what it had been asked and had said before.
struct Expectation {
    /// The versions that may be there.
    private(set) var versions: Set<UInt64> = []
    /// Whether nothing may be there.
    private(set) var mayBeMissing = true

    /// What holds for each key at a cut.
    ///
    /// - A durable write that counted as written is there, or a later one is, unless a removal, a clearing or a write that
    ///   need not be durable was asked for afterwards; then nothing may be there, too.
    /// - No version is there that is older than the last durable one, and none that was never written.
    /// - With a limit any entry may be missing.
    static func all(_ recording: Recording, cut: Int) -> [String: Expectation] {
        var all: [String: Expectation] = [:]
        for key in recording.keys { all[key] = Expectation() }
        for step in recording.steps[..<cut] {
            guard case .mark(let number) = step else { continue }
            switch recording.notes[number] {
            case .writing(let key, let version, let isDurable):
                all[key]?.versions.insert(version)
                if !isDurable { all[key]?.mayBeMissing = true }
            case .wrote(let key, let version, true): all[key] = Expectation(versions: [version], mayBeMissing: false)
            case .wrote(_, _, false): break
            case .removing(let key): all[key]?.mayBeMissing = true
            case .removingAll: for key in all.keys { all[key]?.mayBeMissing = true }
            }
        }
        if recording.limit != nil { for key in all.keys { all[key]?.mayBeMissing = true } }
        return all
    }
}
