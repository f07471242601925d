import DipperData

// The folder `Scheduling` beside this one is a link to the library's. A generic type is made fast for its
// arguments only in the module that holds its source: in the library for its own tasks, here for ours. Called
// across the modules it would run unspecialized, several times slower than it does in the library.
//
// These are the names it takes from the rest of the library.

typealias CacheKey = DipperData.CacheKey

enum DataTask {
    typealias State = DipperData.DataTask.State
}
