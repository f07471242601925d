/// A picture that the caller has added: the original of what is made under its key, until its file is staged.
struct AddedPicture: Sendable {
    let image: Image
    /// The digest of its file; 0 if the caller gave none.
    let digest: UInt64
    let info: EntryInfo
}
