//! The parser against bytes that were right before they were damaged: seeded mutations of `fuzz/seeds/request`, judged by
//! `fuzz/judge.rs`. Each round descends from its number alone, so a failure is repeated by that round.
//!
//! `cargo test --release -p foreshore-server --test mutations -- --ignored --nocapture` makes a hundred million of them;
//! `FORESHORE_SEED` is the first round's number.

#[path = "../fuzz/judge.rs"]
mod judge;

use judge::Judge;
use std::path::Path;
use std::time::Instant;

/// Bytes judged in one round.
const PER_ROUND: u64 = 100_000;

/// Damage is added to the same bytes this often at most; then they begin anew from a seed.
const GENERATIONS: u64 = 8;

/// What the protocol is made of, and numbers at the limits of the judge's parser and of the machine.
const WORDS: &[&[u8]] = &[
    b"*",
    b"$",
    b"\r\n",
    b"\n",
    b"\r",
    b"\"",
    b"'",
    b"\\",
    b"\\x4",
    b"\\x41",
    b" ",
    b"\0",
    b"\t",
    b"*0\r\n",
    b"*-1\r\n",
    b"*1\r\n",
    b"*2\r\n",
    b"*32\r\n",
    b"*33\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"$1\r\nk\r\n",
    b"$4094\r\n",
    b"$4095\r\n",
    b"$4096\r\n",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"18446744073709551616",
    b"PING\r\n",
    b"get \"k\" 'v'\r\n",
    b"%1\r\n",
    b":1\r\n",
    b"00000000000000000000000000000001",
];

/// xorshift64*: small, quick, and the same for ever.
struct Choice(u64);

impl Choice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/request");
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let seeds: Vec<_> = paths.iter().map(|path| std::fs::read(path).expect("a seed")).collect();
    assert!(!seeds.is_empty() && seeds.iter().all(|seed| !seed.is_empty()), "there is nothing to damage");
    seeds
}

/// Damages `bytes` in one place.
fn mutate(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], choice: &mut Choice) {
    let at = choice.below(bytes.len());
    let rest = bytes.len() - at;
    match choice.below(8) {
        0 => bytes[at] ^= 1 << choice.below(8),
        1 => bytes[at] = choice.next() as u8,
        2 | 3 => _ = bytes.splice(at..at, WORDS[choice.below(WORDS.len())].iter().copied()),
        4 => _ = bytes.drain(at..at + choice.below(rest.min(16))),
        5 => bytes.extend_from_within(at..at + choice.below(rest.min(64) + 1)),
        6 => bytes.truncate(at.max(1)),
        _ => {
            let other = &seeds[choice.below(seeds.len())];
            bytes.truncate(at.max(1));
            bytes.extend_from_slice(&other[choice.below(other.len())..]);
        }
    }
    bytes.truncate(3 * 4096);
}

fn round(number: u64, seeds: &[Vec<u8>], judge: &mut Judge) {
    let (mut choice, mut bytes) = (Choice::new(number), Vec::new());
    for n in 0..PER_ROUND {
        if n % GENERATIONS == 0 {
            bytes.clear();
            bytes.extend_from_slice(&seeds[choice.below(seeds.len())]);
        }
        mutate(&mut bytes, seeds, &mut choice);
        judge.judge(&bytes);
    }
}

/// Rounds from the seed on; says which ones, so that what fails can be repeated.
fn rounds(count: u64) {
    let first = std::env::var("FORESHORE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (seeds, mut judge, began) = (seeds(), Judge::default(), Instant::now());
    for number in first..first + count {
        if let Err(panic) =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| round(number, &seeds, &mut judge)))
        {
            eprintln!("round {number}: repeat it with FORESHORE_SEED={number}");
            std::panic::resume_unwind(panic);
        }
    }
    let last = first + count - 1;
    println!(
        "{} executions, rounds {first} to {last}, {:.1} s",
        count * PER_ROUND,
        began.elapsed().as_secs_f64()
    );
}

#[test]
fn damaged_requests_are_judged_the_same_in_pieces() {
    rounds(20);
}

#[test]
#[ignore = "a hundred million executions: minutes, optimised"]
fn a_hundred_million_damaged_requests() {
    rounds(1000);
}
