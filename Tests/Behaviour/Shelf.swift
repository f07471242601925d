import DipperData
import Foundation
import TestSupport

/// A tier in memory, made with the public protocol alone. A test decides how each look-up goes.
final class Shelf: Tier {
    struct Fault: Error {}

    enum Mood: Sendable {
        case works, fails, garbles
        /// Never answers, and ignores that it is cancelled.
        case hangs
    }

    let name = "shelf"
    let records = Box<[String: Data]>([:])
    let lookUps = Box(0)
    private let mood: @Sendable () -> Mood

    init(_ mood: @escaping @Sendable () -> Mood = { .works }) {
        self.mood = mood
    }

    func record(named name: String) async throws -> Data? {
        lookUps.update { $0 += 1 }
        try await behave()
        let record = records.value[name]
        guard mood() == .garbles, var bytes = record else { return record }
        bytes[bytes.count / 2] ^= 1
        return bytes
    }

    func store(_ record: Data, named name: String, until expiration: Date?) async throws {
        try await behave()
        records.update { $0[name] = record }
    }

    func removeRecord(named name: String) async throws {
        try await behave()
        records.update { $0[name] = nil }
    }

    private func behave() async throws {
        switch mood() {
        case .works, .garbles: break
        case .fails: throw Fault()
        case .hangs: await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
        }
    }
}
