//! What the program may set, as text: keys of an `MPI_Info`.

use std::time::Duration;

use platform::spelling::nearest;
use recommended_group::assignment::Assignment;
use recommended_group::config::Config;
use recommended_group::units::Rank;
use serde::{Deserialize, Serialize};

/// A key or a value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The value.
    #[error("{key} is {value:?}: it must be {expected}")]
    Value {
        /// Its key.
        key: &'static str,
        /// As the program has set it.
        value: String,
        /// What it must be.
        expected: &'static str,
    },
    /// The key begins as ours do.
    #[error("there is no key {key:?}: {nearest} may be meant")]
    Key {
        /// As the program has set it.
        key: String,
        /// The most similar one.
        nearest: &'static str,
    },
}

/// The parameters of a group, equal at all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// Milliseconds from test to test, 10 to 3,600,000.
    pub interval_ms: u32,
    /// Tests in a row before a return is asked for, 1 to 1,000.
    pub passes: u32,
    /// The estimate is multiplied by so many thousandths, 1,000 to 1,000,000.
    pub multiplier: u32,
    /// Then so many milliseconds are added, up to 3,600,000.
    pub addend_ms: u32,
    /// Whether whoever passes the tests comes back.
    pub returns: bool,
    /// Whether processes are tested as in VCube.
    pub vcube: bool,
}

/// What all keys begin with. Those of others begin otherwise.
const PREFIX: &str = "rw_";
/// The keys, and what each value must be.
const KEYS: [(&str, &str); 6] = [
    ("rw_interval", "a number of milliseconds from 10 to 3600000"),
    ("rw_passes", "a number from 1 to 1000"),
    ("rw_multiplier", "a number from 1 to 1000"),
    ("rw_addend", "a number of milliseconds from 0 to 3600000"),
    ("rw_returns", "true or false"),
    ("rw_assignment", "all or vcube"),
];

impl Default for Parameters {
    /// As in the paper, but for the addend: a thread that waits for its processor for a moment is not a slow process.
    fn default() -> Self {
        Self { interval_ms: 1000, passes: 5, multiplier: 2500, addend_ms: 20, returns: true, vcube: false }
    }
}

impl Parameters {
    /// The default, but for these keys and their values. Keys that do not begin with `rw_` are for others.
    ///
    /// # Errors
    /// The first key that is unknown, or value that cannot be used.
    pub fn read(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, Unusable> {
        let mut read = Self::default();
        for (key, value) in pairs.into_iter().filter(|(key, _)| key.starts_with(PREFIX)) {
            if let Some((key, expected)) = KEYS.into_iter().find(|(known, _)| *known == key) {
                read.set(key, value.trim()).ok_or(Unusable::Value { key, value, expected })?;
            } else if let Some(nearest) = nearest(&key, KEYS.map(|(known, _)| known)) {
                return Err(Unusable::Key { key, nearest });
            }
        }
        Ok(read)
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        let number = |least: u32, most: u32| value.parse().ok().filter(|number| (least..=most).contains(number));
        match key {
            "rw_interval" => self.interval_ms = number(10, 3_600_000)?,
            "rw_passes" => self.passes = number(1, 1000)?,
            "rw_multiplier" => {
                let factor: f64 = value.parse().ok().filter(|factor| (1.0..=1000.0).contains(factor))?;
                self.multiplier = (factor * 1000.0).round() as u32;
            }
            "rw_addend" => self.addend_ms = number(0, 3_600_000)?,
            "rw_returns" => self.returns = value.parse().ok()?,
            _ => self.vcube = [("vcube", true), ("all", false)].into_iter().find(|(name, _)| *name == value)?.1,
        }
        Some(())
    }

    /// For the state machine of one process.
    #[must_use]
    pub fn config(&self, me: Rank, count: u32) -> Config {
        let mut config = Config::new(me, count);
        config.interval = Duration::from_millis(self.interval_ms.max(1).into());
        config.passes = self.passes.max(1);
        config.tolerance.multiplier = self.multiplier;
        config.tolerance.addend = Duration::from_millis(self.addend_ms.into());
        config.returns = self.returns;
        config.assignment = if self.vcube { Assignment::VCube } else { Assignment::AllToAll };
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Parameters, Unusable> {
        Parameters::read(pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())))
    }

    #[test]
    fn values_are_read_and_what_is_not_said_is_the_default() {
        assert_eq!(read(&[]), Ok(Parameters::default()));
        let read = read(&[("rw_interval", "100"), ("rw_multiplier", "1.5"), ("rw_returns", "false")]).unwrap();
        assert_eq!(read, Parameters { interval_ms: 100, multiplier: 1500, returns: false, ..Parameters::default() });
        let config = read.config(3, 8);
        assert_eq!((config.me, config.count, config.interval), (3, 8, Duration::from_millis(100)));
        assert!(!config.returns);
    }

    #[test]
    fn a_key_that_begins_as_ours_do_and_is_none_is_named_with_the_nearest_one() {
        let text = read(&[("rw_passes", "3"), ("rw_intervall", "100")]).unwrap_err().to_string();
        assert_eq!(text, r#"there is no key "rw_intervall": rw_interval may be meant"#);
        assert_eq!(read(&[("mpi_hw_subdomain", "x"), ("rwx", "1")]), Ok(Parameters::default()));
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named() {
        for (key, value) in [
            ("rw_interval", "9"),
            ("rw_passes", "0"),
            ("rw_multiplier", "0.9"),
            ("rw_multiplier", "NaN"),
            ("rw_addend", "-1"),
            ("rw_returns", "maybe"),
            ("rw_assignment", "none"),
        ] {
            let text = read(&[(key, value)]).unwrap_err().to_string();
            assert!(text.starts_with(&format!("{key} is {value:?}: it must be ")), "{text}");
        }
    }
}
