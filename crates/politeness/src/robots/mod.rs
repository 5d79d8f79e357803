//! robots.txt: from the bytes a stranger sent ([`text`], [`percent`]) to rules ([`rules`],
//! [`pattern`]), and what is known of one host's file as time passes ([`copy`]).

mod copy;
mod pattern;
mod percent;
mod rules;
mod text;

pub(crate) use copy::{Consulted, Robots};
pub(crate) use rules::Rules;
