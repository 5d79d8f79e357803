//! The step from a configuration as written to one that means something.

/// What is wrong with the values of a configuration, found after it was read: all of it at once.
#[derive(Debug, Default, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError(pub Vec<Problem>);

/// One value that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct Problem {
    /// The key's full path, such as `scope.exclude[2]`.
    pub key: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl ConfigError {
    /// Adds a problem unless `fine`.
    pub fn require(&mut self, fine: bool, key: &str, message: impl Into<String>) {
        if !fine {
            self.0.push(Problem { key: key.to_owned(), message: message.into() });
        }
    }

    /// `Ok` when nothing was added.
    ///
    /// # Errors
    /// Itself, when something was.
    pub fn into_result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}
