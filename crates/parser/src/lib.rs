//! Links and facts from bytes; never fails.
