/// A value whose fields may hold secrets: its description, which leaves them out, is all that is printed of it, by
/// `print`, by `dump` and by a debugger.
package protocol RedactedStringConvertible: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension RedactedStringConvertible {
    /// The value's `description`, so that a debugger prints no secrets either.
    public var debugDescription: String { description }

    /// A mirror without children, so that `dump` and reflection reveal no secrets.
    public var customMirror: Mirror { Mirror(self, children: EmptyCollection()) }
}
