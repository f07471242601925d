/// The built-in processors.
///
/// - Sizes and frames: ``Downsample``, ``Resize``, ``Scale``, ``Crop``, ``Fitting``.
/// - Orientation: ``Rotate``, ``Flip``.
/// - Shapes: ``RoundedCorners``, ``Circle``, ``Border``.
/// - Colours and filters: ``Blur``, ``ColorControls``, ``WhiteBalance``, ``Monochrome``, ``Tint``, ``Overlay``,
///   ``Blend``, ``Storyboard``, ``SoulOut``.
/// - Chains and closures: ``Chain``, ``Custom``.
///
/// Where a processor is expected, a static member of ``ImageProcessor`` is the short form: `.circle` is
/// `ImageProcessors.Circle()`, and `.blur(10)` is `ImageProcessors.Blur(10)`.
///
/// ```swift
/// let request = ImageRequest(url).processed(by: .circle)
/// let avatar = try ImageProcessors.Circle().process(image, ProcessingContext())
/// ```
public enum ImageProcessors {}
