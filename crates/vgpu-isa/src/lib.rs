//! The gfx9 instruction set.
