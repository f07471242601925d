/// A parameter of the query has a value that makes no sense; answered with 400, so that a slip in a
/// test does not go unseen.
struct BadParameter: Error {
    var name: String
    var value: String
}
