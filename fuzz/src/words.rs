//! Words that users give: values of info keys, which the component in every rank reads, and what `mpirun` was asked
//! for.

use std::ffi::CString;

use node_abi::request::{first_shell, is_yes, leaves_in, starts_ranks_stopped};
use scope::Scope;
use uniformity::Uniformity;

// The component is a library for MPI processes, which other programs cannot link.
#[path = "../../mpi-layer/src/properties/error_scope.rs"]
pub mod scope;
#[path = "../../mpi-layer/src/properties/error_uniformity.rs"]
pub mod uniformity;

/// Values of info keys: a word has one meaning, whose own word has the same, and longer words have none.
pub fn values(bytes: &[u8]) {
    let word = CString::new(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).expect("a text without zeros");
    let scope = Scope::parse(&word);
    let uniformity = Uniformity::parse(&word);
    if let Some(scope) = scope {
        assert_eq!((Scope::parse(scope.word()), Scope::from_value(scope.value())), (Some(scope), scope));
    }
    if let Some(uniformity) = uniformity {
        assert_eq!(Uniformity::parse(uniformity.word()), Some(uniformity));
        assert_eq!(Uniformity::from_value(uniformity.value()), uniformity);
    }
    let longer = CString::new([word.to_bytes(), b" "].concat()).expect("a text without zeros");
    assert!(Scope::parse(&longer).is_none() && Uniformity::parse(&longer).is_none());
}

/// The command line of `mpirun`, and what is in its environment: an option is one wherever it stands, and without one
/// nothing was asked for.
pub fn requests(bytes: &[u8]) {
    let words: Vec<_> = bytes.split(|byte| *byte == 0).collect();
    let options: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word).to_lowercase()).collect();
    let has_option = options.iter().any(|word| word.starts_with('-'));
    let says_stop = options.iter().any(|word| word.contains("stop-on"));
    let stopped = starts_ranks_stopped(bytes);
    assert!(!stopped || has_option && says_stop);
    assert_eq!(starts_ranks_stopped(&bytes.to_ascii_uppercase()), starts_ranks_stopped(&bytes.to_ascii_lowercase()));
    for option in [&b"--stop-on-exec\0"[..], b"--rtos=stop-on\0", b"--runtime-options\0notifyerrors,stop-on-exec\0"] {
        for line in [[bytes, &[0], option].concat(), [option, bytes].concat()] {
            assert!(starts_ranks_stopped(&line));
        }
    }
    let text = String::from_utf8_lossy(bytes);
    let shell = first_shell(&text);
    assert!(!shell.is_empty() && shell == shell.trim() && !shell.contains(':'));
    assert_eq!(first_shell(&format!("{shell}:{text}")), shell);
    assert!(!is_yes(&text) || text.trim().len() <= "enabled".len());
    let without = text.trim_start_matches('^');
    assert!(leaves_in(&format!("{without},ringwatch"), "ringwatch"));
    assert!(!leaves_in(&format!("^{without},ringwatch"), "ringwatch"));
    let names = without.split(',').any(|name| name == "ringwatch");
    assert_eq!(leaves_in(&format!("^{without}"), "ringwatch"), !names);
}
