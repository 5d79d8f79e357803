//! The wiring: the one loop that carries values between the stages.
