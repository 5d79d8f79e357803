//! Admit or refuse a URL before anything is spent on it.
