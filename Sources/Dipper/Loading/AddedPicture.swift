/// A picture that the caller has added: the original of what is made under its key, until its file is staged.
struct AddedPicture: Sendable {
    let image: Image
    /// Of its file, if the caller gave one; else 0.
    let digest: UInt64
    let info: EntryInfo
}
