//! One-sided communication and files.

mod windows_and_files;
