//! A deterministic web in a box, and what a right crawl of it fetches.
