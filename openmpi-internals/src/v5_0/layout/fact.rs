//! A line of the list, and how lines are written.

/// What the C compiler has to find for a line of the list.
pub struct Fact {
    /// The header, or the source file, which says it.
    pub header: &'static str,
    /// An expression in C.
    pub expression: &'static str,
    /// Its value.
    pub value: i64,
}

/// The expression in C of a line: where a struct has a member, in bytes, in words (of a table of functions) or in pairs
/// of words (functions, each with its module); how large it is; or a constant.
macro_rules! expression {
    ($type:literal offset $member:literal) => {
        concat!("offsetof(", $type, ", ", $member, ")")
    };
    ($type:literal slot $member:literal) => {
        concat!("offsetof(", $type, ", ", $member, ") / sizeof(void *)")
    };
    ($type:literal pair $member:literal) => {
        concat!("offsetof(", $type, ", ", $member, ") / (2 * sizeof(void *))")
    };
    ($type:literal size) => {
        concat!("sizeof(", $type, ")")
    };
    ($type:literal slots) => {
        concat!("sizeof(", $type, ") / sizeof(void *)")
    };
    ($type:literal value $constant:literal) => {
        $constant
    };
}

/// A module for each struct, with a constant for each line; and all lines as `FACTS`.
macro_rules! layout {
    ($(
        $(#[$doc:meta])*
        mod $module:ident: $type:literal in $header:literal {
            $($(#[$note:meta])* $name:ident: $rust:ty = $value:literal, $kind:ident $($member:literal)?;)*
        }
    )*) => {
        $(
            $(#[$doc])*
            pub mod $module {
                #[allow(unused_imports, reason = "of some modules alone")]
                use std::ffi::c_int;
                $($(#[$note])* pub const $name: $rust = $value;)*
            }
        )*
        /// All that this file says of Open MPI.
        pub const FACTS: &[$crate::v5_0::layout::fact::Fact] = &[$($($crate::v5_0::layout::fact::Fact {
            header: $header,
            expression: expression!($type $kind $($member)?),
            value: $module::$name as i64,
        },)*)*];
    };
}
