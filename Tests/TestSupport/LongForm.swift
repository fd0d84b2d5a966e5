public import Testing

extension Trait where Self == ConditionTrait {
    /// Skips a suite or a test unless ``Soak/isLong``.
    public static var longForm: Self { .enabled(if: Soak.isLong, "part of the long form; set LONG") }
}
