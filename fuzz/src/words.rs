//! Words that users give: values of info keys, which the component in every rank reads.

use std::ffi::CString;

use scope::Scope;
use uniformity::Uniformity;

// The component is a library for MPI processes, which other programs cannot link.
#[path = "../../mpi-layer/src/scope.rs"]
pub mod scope;
#[path = "../../mpi-layer/src/uniformity.rs"]
pub mod uniformity;

/// Values of info keys: a word has one meaning, whose own word has the same, and longer words have none.
pub fn values(bytes: &[u8]) {
    let word = CString::new(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).expect("a text without zeros");
    let scope = Scope::parse(&word);
    let uniformity = Uniformity::parse(&word);
    if let Some(scope) = scope {
        assert_eq!((Scope::parse(scope.word()), Scope::of(scope.value())), (Some(scope), scope));
    }
    if let Some(uniformity) = uniformity {
        assert_eq!(Uniformity::parse(uniformity.word()), Some(uniformity));
        assert_eq!(Uniformity::of(uniformity.value()), uniformity);
    }
    let longer = CString::new([word.to_bytes(), b" "].concat()).expect("a text without zeros");
    assert!(Scope::parse(&longer).is_none() && Uniformity::parse(&longer).is_none());
}
