/// A value whose fields may hold secrets. `print`, `dump` and a debugger print nothing of it but its description, which
/// leaves the secrets out.
package protocol RedactedStringConvertible: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension RedactedStringConvertible {
    /// The value's `description`, so that a debugger prints no secrets either.
    public var debugDescription: String { description }

    /// A mirror without children, so that `dump` and reflection reveal no secrets.
    public var customMirror: Mirror { Mirror(self, children: EmptyCollection()) }
}
