//! The URL-seen test: a recent cache, a filter and an exact store behind one question.
