import Foundation
import Testing

/// The tests that `make check` runs and `make test` leaves out.
enum Checks {
    static let areOn = ProcessInfo.processInfo.environment["DIPPER_CHECK"] == "1"
}

extension Trait where Self == ConditionTrait {
    static var inCheck: Self { .enabled(if: Checks.areOn, "runs in make check: set DIPPER_CHECK=1") }
}
