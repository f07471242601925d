/// The error for a query parameter with an invalid value. The server answers it with 400, so that a mistake in a test
/// is noticed.
struct BadParameter: Error {
    var name: String
    var value: String
}
