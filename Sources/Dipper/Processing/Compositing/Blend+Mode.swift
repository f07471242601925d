extension ImageProcessors.Blend {
    /// A way to put a source on a backdrop (W3C Compositing and Blending Level 1; PDF 1.7, section 11).
    public enum Mode: String, Sendable, Hashable, CaseIterable {
        // Porter and Duff's operators, which choose the parts of source and backdrop that stay.

        /// Nothing: the result is transparent.
        case clear
        /// The source alone.
        case source
        /// The backdrop alone.
        case destination
        /// The source on the backdrop.
        case over
        /// The backdrop on the source.
        case destinationOver
        /// The source, only where the backdrop is.
        case `in`
        /// The backdrop, only where the source is.
        case destinationIn
        /// The source, only where the backdrop is not.
        case out
        /// The backdrop, only where the source is not.
        case destinationOut
        /// The source on the backdrop, where the backdrop is.
        case atop
        /// The backdrop on the source, where the source is.
        case destinationAtop
        /// The source where the backdrop is not, and the backdrop where the source is not.
        case xor
        /// The sum of source and backdrop, at most white.
        case plus

        // Separable modes, which mix one colour component at a time where source and backdrop overlap; elsewhere like
        // `over`.

        /// The product of both colours, which is at least as dark as each.
        case multiply
        /// The inverse of the product of both inverse colours, which is at least as light as each.
        case screen
        /// The result of `multiply` or `screen`, depending on the backdrop.
        case overlay
        /// The darker one of both colours.
        case darken
        /// The lighter one of both colours.
        case lighten
        /// The backdrop made lighter by the source.
        case colorDodge
        /// The backdrop made darker by the source.
        case colorBurn
        /// The result of `multiply` or `screen`, depending on the source.
        case hardLight
        /// The backdrop made darker or lighter, depending on the source.
        case softLight
        /// The lighter colour minus the darker colour.
        case difference
        /// The result of `difference`, with less contrast.
        case exclusion

        // Non-separable modes, which mix all three colour components together.

        /// The hue of the source, the saturation and luminosity of the backdrop.
        case hue
        /// The saturation of the source, the hue and luminosity of the backdrop.
        case saturation
        /// Hue and saturation of the source, the luminosity of the backdrop.
        case color
        /// The luminosity of the source, hue and saturation of the backdrop.
        case luminosity
    }
}
