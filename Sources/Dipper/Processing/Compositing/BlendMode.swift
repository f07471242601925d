/// How a source is put on a backdrop (W3C Compositing and Blending Level 1; PDF 1.7, section 11).
public enum BlendMode: String, Sendable, Hashable, CaseIterable {
    // Porter and Duff's operators: which part of source and backdrop stays.

    /// Nothing.
    case clear
    /// The source alone.
    case source
    /// The backdrop alone.
    case destination
    /// The source on the backdrop.
    case over
    /// The backdrop on the source.
    case destinationOver
    /// The source where the backdrop is.
    case `in`
    /// The backdrop where the source is.
    case destinationIn
    /// The source where the backdrop is not.
    case out
    /// The backdrop where the source is not.
    case destinationOut
    /// The source on the backdrop, where the backdrop is.
    case atop
    /// The backdrop on the source, where the source is.
    case destinationAtop
    /// Each where the other is not.
    case xor
    /// Both added up, at most to white.
    case plus

    // Colours are mixed where both are; elsewhere as `over`. These one colour at a time.

    /// Multiplied: at least as dark as each.
    case multiply
    /// Multiplied as darkness: at least as light as each.
    case screen
    /// Multiplied or screened, by the backdrop.
    case overlay
    /// The darker one.
    case darken
    /// The lighter one.
    case lighten
    /// The backdrop made lighter by the source.
    case colorDodge
    /// The backdrop made darker by the source.
    case colorBurn
    /// Multiplied or screened, by the source.
    case hardLight
    /// Darker or lighter, by the source.
    case softLight
    /// The lighter one less the darker one.
    case difference
    /// As difference, with less contrast.
    case exclusion

    // These by all three colours together.

    /// The hue of the source, the saturation and luminosity of the backdrop.
    case hue
    /// The saturation of the source, the hue and luminosity of the backdrop.
    case saturation
    /// Hue and saturation of the source, the luminosity of the backdrop.
    case color
    /// The luminosity of the source, hue and saturation of the backdrop.
    case luminosity
}
