/// A picture that the caller has added. Until its file is staged, it is the original of the pictures made under its
/// key.
struct AddedPicture: Sendable {
    let image: Image
    /// The digest of the picture's file; 0 if the caller gave no file.
    let digest: UInt64
    let info: EntryInfo
}
