#if HEIC
    import Foundation
    import ProcessShims
    import Synchronization

    /// Memory that holds the same bytes whenever it is new.
    ///
    /// libde265 decodes what a damaged file has, and leaves the rest of the picture as the memory was. That would show what
    /// was in it before, such as parts of another picture, to whoever has made the file. libde265 1.0 does not ask
    /// the functions that it takes for its planes.
    enum FilledMemory {
        /// Grey, as a sample of eight bits.
        private static let fill: Int32 = 0x80
        private static let users = Mutex(0)

        /// Runs a closure with memory of the C library that is filled when it is handed out: for all threads, because the
        /// library knows no other way.
        static func use<Result>(_ body: () -> Result) -> Result {
            users.withLock { users in
                if users == 0 { mallopt(M_PERTURB, ~fill & 0xFF) }
                users += 1
            }
            defer {
                users.withLock { users in
                    users -= 1
                    if users == 0 { mallopt(M_PERTURB, 0) }
                }
            }
            fillSmallParts()
            return body()
        }

        /// Fills the small parts that this thread has freed, which it gets again as they are.
        private static func fillSmallParts() {
            let (sizes, kept) = (stride(from: 24, through: 1_032, by: 16), 7)
            let parts = sizes.flatMap { size in
                (0..<kept).map { _ in
                    let part = malloc(size)
                    if let part { memset(part, fill, size) }
                    return part
                }
            }
            for part in parts { free(part) }
        }
    }
#endif
