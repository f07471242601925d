import Foundation

/// A place in which a cache keeps entries beyond its own memory and disk, such as a Redis or memcached server that
/// several machines share.
///
/// A cache asks the tiers of ``DataCache/Configuration/tiers`` one after the other for an entry that neither memory nor
/// disk has. It keeps what a tier has in memory and on disk, and stores in every tier what the network delivers, if a
/// shared cache may keep it (<doc:HTTPRules#Shared-caches>): no answer to a request with credentials, cookies or a
/// modifier, no answer that sets a cookie or says `private`, nothing from a provider and nothing that the program adds.
/// Pictures that processors have made of such answers, and that the cache keeps on disk, are stored as well, each under a
/// name of its own.
///
/// A tier never makes a call fail, nor delays it by more than ``DataCache/Configuration/tierTimeLimit``: a look-up that
/// throws or takes longer counts as a miss. A tier that fails three times in a row rests for a second; each failure
/// after a rest doubles the next one, up to a minute.
///
/// A record is an entry in the cache's format, with a checksum, and encoded by the codec of
/// ``DataCache/Configuration/recordCodec`` if there is one. The cache ignores records that are damaged, need another
/// codec, or belong to another key. Names consist of 64 hexadecimal digits and reveal no URL.
///
/// ```swift
/// actor Shelf: Tier {
///     nonisolated let name = "shelf"
///     private var records: [String: Data] = [:]
///
///     func record(named name: String) -> Data? { records[name] }
///     func store(_ record: Data, named name: String, until expiration: Date?) { records[name] = record }
///     func removeRecord(named name: String) { records[name] = nil }
/// }
/// ```
public protocol Tier: Sendable {
    /// The name of the tier in the log.
    var name: String { get }

    /// Returns the record of a name; `nil` for none. Must not block Swift's cooperative threads. After the time limit
    /// the task is cancelled and its result ignored.
    func record(named name: String) async throws -> Data?

    /// Stores a record under a name, in place of an earlier one.
    /// - Parameters:
    ///   - record: bytes that only a cache can read.
    ///   - name: the name under which every cache looks for the record.
    ///   - expiration: the time from which the record is of no use: when the entry expires, or a week after it has become
    ///     stale; `nil` for never.
    /// - Throws: ``DipperError/notWritten`` if there is no room, which is no failure of the tier.
    func store(_ record: Data, named name: String, until expiration: Date?) async throws

    /// Removes the record of a name, if there is one.
    func removeRecord(named name: String) async throws
}
