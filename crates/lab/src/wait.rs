//! Waiting for another thread in a loop, which lets others run now and then: whoever is waited for may not be running.

use std::hint::spin_loop;

/// Attempts between two yields of the processor.
const SPINS: u32 = 128;

/// Counts attempts in vain.
#[derive(Default)]
pub struct Patience(u32);

impl Patience {
    /// Before the next attempt.
    #[inline(always)]
    pub fn wait(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(SPINS) { std::thread::yield_now() } else { spin_loop() }
    }
}

/// Tries until it succeeds.
#[inline(always)]
pub fn until(mut attempt: impl FnMut() -> bool) {
    let mut patience = Patience::default();
    while !attempt() {
        patience.wait();
    }
}
