//! One request in, one outcome out.
