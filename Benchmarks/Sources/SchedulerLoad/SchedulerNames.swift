import DipperData

// What `Linked` holds are links to files of the library. A generic type is made fast for its arguments only in the
// module that holds its source: in the library for its own tasks, here for ours. Called across the modules the
// scheduler would run unspecialized, several times slower than it does in the library.
//
// These are the names it takes from the rest of the library.

enum DataTask {
    typealias State = DipperData.DataTask.State
}

enum LookUpQueue {
    typealias Place = WorkOrder<Int>.Place
}
