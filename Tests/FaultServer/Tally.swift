/// The number of times an event happened, in total and by path.
struct Tally: Sendable {
    private var total = 0
    private var byPath: [String: Int] = [:]

    mutating func add(path: String) {
        total += 1
        byPath[path, default: 0] += 1
    }

    func count(path: String?) -> Int {
        guard let path else { return total }
        return byPath[path] ?? 0
    }
}
