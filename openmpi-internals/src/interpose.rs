//! One ordered list of what stands in front of Open MPI's functions.
//!
//! A feature is installed as a whole or not at all: where this Open MPI lacks a symbol, or another feature stands in
//! front of the same function, what the feature has replaced is put back, and the component says which feature is off
//! and why.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_void};
use std::sync::Mutex;

use crate::loaded::Library;
pub use crate::symbol::Missing;
use crate::symbol::{Function, Ours, Variable, address_as};
use crate::sync::lock;

/// What stands in front of functions of Open MPI.
pub struct Feature {
    /// What is so where the feature is off, in words for the user.
    pub off: &'static str,
    /// It reads Open MPI's structs, so that these have to be where they are looked for.
    pub needs_layout: bool,
    /// Installs it.
    pub install: fn(&Installer) -> Result<(), Missing>,
}

/// Functions in front of which a feature stands, by the library that calls them.
static TAKEN: Mutex<BTreeSet<(usize, &'static CStr)>> = Mutex::new(BTreeSet::new());

/// Installs one feature.
pub struct Installer<'a> {
    library: &'a Library,
    /// What has been replaced: the caller, the function, and what it has called until then.
    replaced: RefCell<Vec<(Library, &'static CStr, *const c_void)>>,
}

/// Installs the features in their order; `fits`: the structs are where they are looked for. Returns what is so where
/// they are off, and why they are.
pub fn install(library: &Library, fits: bool, features: &[Feature]) -> Vec<(&'static str, Missing)> {
    let install = |feature: &Feature| {
        let at = Installer { library, replaced: RefCell::default() };
        let result = if feature.needs_layout && !fits { Err(Missing::Layout) } else { (feature.install)(&at) };
        result.inspect_err(|_| at.put_back()).err().map(|missing| (feature.off, missing))
    };
    features.iter().filter_map(install).collect()
}

impl Installer<'_> {
    /// The library in which features are installed.
    pub fn library(&self) -> &Library {
        self.library
    }

    /// A function.
    ///
    /// # Errors
    /// There is none.
    pub fn function<F: Copy>(&self, function: Function<F>) -> Result<F, Missing> {
        self.library.function(function).ok_or(function.missing())
    }

    /// A function that is not Open MPI's own, by its name.
    ///
    /// # Errors
    /// There is none.
    ///
    /// # Safety
    /// `F` is the type of a pointer to that function.
    pub unsafe fn standard<F: Copy>(&self, name: &'static CStr) -> Result<F, Missing> {
        // SAFETY: as required of the caller.
        unsafe { self.library.standard(name) }.ok_or(Missing::Symbol(name))
    }

    /// Address of a variable.
    ///
    /// # Errors
    /// There is none.
    pub fn variable<T>(&self, variable: Variable<T>) -> Result<*mut T, Missing> {
        self.library.variable(variable).ok_or(variable.missing())
    }

    /// Address of a predefined object.
    ///
    /// # Errors
    /// There is none.
    pub fn predefined<T>(&self, variable: Variable<T>) -> Result<*mut T, Missing> {
        self.library.predefined(variable).ok_or(variable.missing())
    }

    /// Has the library call `ours` wherever it calls a function, by its table of jumps. Returns what it has called
    /// until now.
    ///
    /// # Errors
    /// It has no such calls, or another feature stands there.
    ///
    /// # Safety
    /// `ours` stays for ever, and does for its callers what the function does.
    pub unsafe fn redirect<F: Copy>(&self, function: Function<F>, ours: F) -> Result<F, Missing> {
        // SAFETY: as required of the caller.
        unsafe { self.redirect_in(self.library, function, ours) }
    }

    /// The same in another library.
    ///
    /// # Errors
    /// As of [`redirect`](Self::redirect).
    ///
    /// # Safety
    /// As of [`redirect`](Self::redirect).
    pub unsafe fn redirect_in<F: Copy>(&self, library: &Library, function: Function<F>, ours: F) -> Result<F, Missing> {
        // SAFETY: as required of the caller; what has been called is of the same type.
        unsafe { self.put(library, function.by(ours)).map(|stock| address_as(stock)) }
    }

    /// The same for each of several.
    ///
    /// # Errors
    /// As of [`redirect`](Self::redirect).
    ///
    /// # Safety
    /// As of [`redirect`](Self::redirect).
    pub unsafe fn redirect_all(&self, functions: &[Ours]) -> Result<(), Missing> {
        // SAFETY: as required of the caller.
        functions.iter().try_for_each(|ours| unsafe { self.put(self.library, *ours) }.map(drop))
    }

    unsafe fn put(&self, library: &Library, Ours { name, function }: Ours) -> Result<*const c_void, Missing> {
        if !lock(&TAKEN).insert((library.id(), name)) {
            return Err(Missing::Taken(name));
        }
        // SAFETY: as required of the callers.
        match unsafe { library.replace(name, function) } {
            Some(stock) => {
                self.replaced.borrow_mut().push((library.clone(), name, stock));
                Ok(stock)
            }
            None => {
                lock(&TAKEN).remove(&(library.id(), name));
                Err(Missing::Calls(name))
            }
        }
    }

    fn put_back(&self) {
        for (library, name, stock) in self.replaced.borrow_mut().drain(..).rev() {
            // SAFETY: the function that was there.
            unsafe { library.replace(name, stock) };
            lock(&TAKEN).remove(&(library.id(), name));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;

    use super::*;

    type Parent = unsafe extern "C" fn() -> c_int;

    /// What the test program calls by its table of jumps.
    // SAFETY: the type of unistd.h.
    const CALLED: Function<Parent> = unsafe { Function::new(c"getppid") };
    // SAFETY: no library has it.
    const CALLED_BY_NOBODY: Function<Parent> = unsafe { Function::new(c"called_by_nobody") };
    // SAFETY: as above.
    const OF_NO_RELEASE: Variable<c_int> = unsafe { Variable::new(c"ompi_of_no_release") };

    unsafe extern "C" fn ours() -> c_int {
        -7
    }

    fn parent() -> c_int {
        // SAFETY: a function without arguments.
        unsafe { libc::getppid() }
    }

    fn stands(at: &Installer) -> Result<(), Missing> {
        // SAFETY: no other thread of this test calls it.
        unsafe { at.redirect(CALLED, ours) }.map(drop)
    }

    fn lacks_one(at: &Installer) -> Result<(), Missing> {
        stands(at)?;
        at.variable(OF_NO_RELEASE).map(drop)
    }

    fn feature(off: &'static str, needs_layout: bool, install: fn(&Installer) -> Result<(), Missing>) -> Feature {
        Feature { off, needs_layout, install }
    }

    #[test]
    fn a_feature_is_installed_as_a_whole_or_not_at_all() {
        let before = parent();
        let library = Library::of_this_program();
        let off = install(&library, true, &[feature("first", false, lacks_one)]);
        assert_eq!(off, [("first", Missing::Symbol(c"ompi_of_no_release"))]);
        assert_eq!(off[0].1.to_string(), "this Open MPI has no ompi_of_no_release");
        assert_eq!(parent(), before, "what it had replaced is put back");

        let off = install(&library, false, &[feature("layout", true, stands)]);
        assert_eq!((off, parent()), (vec![("layout", Missing::Layout)], before));

        let off = install(&library, true, &[feature("one", false, stands), feature("other", false, stands)]);
        assert_eq!(off, [("other", Missing::Taken(c"getppid"))]);
        assert_eq!(parent(), -7);
        let installer = Installer { library: &library, replaced: RefCell::default() };
        // SAFETY: no code calls it.
        let nobody = unsafe { installer.redirect(CALLED_BY_NOBODY, ours) };
        assert_eq!(nobody.err(), Some(Missing::Calls(c"called_by_nobody")));
    }
}
