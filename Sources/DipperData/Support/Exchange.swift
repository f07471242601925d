/// Puts a new value in the place of an old one and returns the old one.
package func exchange<Value>(_ place: inout Value, with value: Value) -> Value {
    let old = place
    place = value
    return old
}
