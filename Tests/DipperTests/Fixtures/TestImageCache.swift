import TestSupport

/// The box of the tests. Dipper has a type of the same name, for the boxes of ISO media files.
typealias Box = TestSupport.Box
