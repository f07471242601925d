import CPixman

extension ImageProcessors.Blend.Mode {
    /// The operator of Pixman for the mode.
    var operation: pixman_op_t {
        switch self {
        case .clear: PIXMAN_OP_CLEAR
        case .source: PIXMAN_OP_SRC
        case .destination: PIXMAN_OP_DST
        case .over: PIXMAN_OP_OVER
        case .destinationOver: PIXMAN_OP_OVER_REVERSE
        case .in: PIXMAN_OP_IN
        case .destinationIn: PIXMAN_OP_IN_REVERSE
        case .out: PIXMAN_OP_OUT
        case .destinationOut: PIXMAN_OP_OUT_REVERSE
        case .atop: PIXMAN_OP_ATOP
        case .destinationAtop: PIXMAN_OP_ATOP_REVERSE
        case .xor: PIXMAN_OP_XOR
        case .plus: PIXMAN_OP_ADD
        case .multiply: PIXMAN_OP_MULTIPLY
        case .screen: PIXMAN_OP_SCREEN
        case .overlay: PIXMAN_OP_OVERLAY
        case .darken: PIXMAN_OP_DARKEN
        case .lighten: PIXMAN_OP_LIGHTEN
        case .colorDodge: PIXMAN_OP_COLOR_DODGE
        case .colorBurn: PIXMAN_OP_COLOR_BURN
        case .hardLight: PIXMAN_OP_HARD_LIGHT
        case .softLight: PIXMAN_OP_SOFT_LIGHT
        case .difference: PIXMAN_OP_DIFFERENCE
        case .exclusion: PIXMAN_OP_EXCLUSION
        case .hue: PIXMAN_OP_HSL_HUE
        case .saturation: PIXMAN_OP_HSL_SATURATION
        case .color: PIXMAN_OP_HSL_COLOR
        case .luminosity: PIXMAN_OP_HSL_LUMINOSITY
        }
    }

    /// Whether the mode treats red, green and blue alike, so that red and blue may be exchanged.
    var treatsColorsAlike: Bool {
        switch self {
        case .hue, .saturation, .color, .luminosity: false
        default: true
        }
    }
}
