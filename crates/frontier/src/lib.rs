//! What to fetch next, and not before when.
