import Dipper
import DipperRedis
import Foundation
import Logging

/// The code of the guide *Sharing between machines*.
enum SharingGuide {
    static func shared(_ password: String, _ folder: URL, _ url: URL, _ logger: Logger) async throws {
        let tier = try RedisTier("rediss://fleet:\(password)@cache.example.org/pictures")
        do { try await tier.connect() } catch { logger.warning("\(tier.name): \(error)") }

        var configuration = ImageCache.Configuration(directory: folder)
        configuration.data.tiers = [tier]
        configuration.data.leases.services = [RedisLeases(tier)]
        let cache = ImageCache(configuration)
        let image = try await cache.getImage(url).response
        print(image.source)  // shared, if another machine has fetched or made it
    }

    static func several() throws -> RedisTier {
        let tier = try RedisTier(["redis://10.0.0.5", "redis://10.0.0.6", "redis://10.0.0.7"])
        return tier
    }
}
