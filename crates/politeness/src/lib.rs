//! May we fetch this, and how soon again.
