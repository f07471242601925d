package import DipperTesting

/// A thread-safe value that closures change and the test reads.
package typealias Box = WatchedState
