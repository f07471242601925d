import Foundation

/// Writes a line to standard output at once, so that whoever reads it through a pipe sees it as it happens.
func tell(_ line: String) {
    // A reader that has gone away is no reason to fail.
    try? FileHandle.standardOutput.write(contentsOf: Data((line + "\n").utf8))
}

/// The same for standard error.
func warn(_ line: String) {
    try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8))
}
