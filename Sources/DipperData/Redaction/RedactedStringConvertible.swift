/// A value whose fields may hold secrets: its description, which leaves them out, is all that is printed of it, by
/// `print`, by `dump` and by a debugger.
package protocol RedactedStringConvertible: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension RedactedStringConvertible {
    /// The description.
    public var debugDescription: String { description }

    /// Without children, so that nothing is found by reflection.
    public var customMirror: Mirror { Mirror(self, children: EmptyCollection()) }
}
