//! The engine from outside: small machines with round numbers, where every instant can be worked out by hand.

mod books;
mod cycles;
mod experiments;
mod machine;
mod mechanisms;
mod random;
mod support;
