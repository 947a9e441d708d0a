//! What the tests of the pool share.
