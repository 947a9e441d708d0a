//! Descents, one at a time and many side by side.
//!
//! Why side by side: one query after another waits for its own misses; 128 queries that go down layer by layer, and ask for
//! their next lines as they go, wait for memory's throughput instead of its latency.

#[cfg(target_arch = "x86_64")]
use super::line::{Avx2, Avx512};
use super::line::{Compare, Isa, PackedLane, Portable};
use super::{Layer, StaticMap};
use crate::node::int::IntKey;
use crate::search::Lane;

/// Queries that descend side by side.
const BATCH: usize = 128;

impl<K: IntKey> StaticMap<K>
where
    K::Lane: PackedLane,
{
    /// The number of keys below `lane`. Hands the least rank that it may be by the layers above to `near`, before it waits for the
    /// keys there.
    #[inline]
    pub(super) fn rank(&self, lane: K::Lane, near: impl Fn(usize)) -> usize {
        match self.isa {
            Isa::Portable => rank::<Portable, K::Lane>(&self.keys, &self.layers, lane, near),
            // SAFETY: the processor has it, or `isa` would not be this.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { rank_avx2(&self.keys, &self.layers, lane, near) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { rank_avx512(&self.keys, &self.layers, lane, near) },
        }
    }

    /// Finds the ranks of all keys, a batch at a time, and hands each of them to `found`, then each batch to `finish`: images,
    /// ranks, results.
    pub(super) fn batches<R>(
        &self,
        keys: &[K],
        results: &mut [R],
        found: impl Fn(usize),
        finish: impl Fn(&[K::Lane], &[usize], &mut [R]),
    ) {
        let mut lanes = [K::Lane::MIN; BATCH];
        let mut ranks = [0; BATCH];
        for (keys, results) in keys.chunks(BATCH).zip(results.chunks_mut(BATCH)) {
            let (lanes, ranks) = (&mut lanes[..keys.len()], &mut ranks[..keys.len()]);
            lanes.iter_mut().zip(keys).for_each(|(lane, key)| *lane = key.to_lane());
            self.ranks(lanes, ranks, &found);
            finish(lanes, ranks, results);
        }
    }

    fn ranks(&self, lanes: &[K::Lane], ranks: &mut [usize], found: impl Fn(usize)) {
        match self.isa {
            Isa::Portable => rank_many::<Portable, K::Lane>(&self.keys, &self.layers, lanes, ranks, found),
            // SAFETY: the processor has it, or `isa` would not be this.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { rank_many_avx2(&self.keys, &self.layers, lanes, ranks, found) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { rank_many_avx512(&self.keys, &self.layers, lanes, ranks, found) },
        }
    }
}

/// F3: separators below this are those at most at `lane`; the greatest image alone is not told from padding, and need not
/// be, for only the last key can be it.
#[inline(always)]
fn beyond<L: Lane>(lane: L) -> L {
    lane.after().unwrap_or(lane)
}

#[inline(always)]
fn rank<C: Compare, L: PackedLane>(keys: &[L], layers: &[Layer], lane: L, near: impl Fn(usize)) -> usize {
    let lines = L::lines(keys);
    let (leaves, upper) = layers.split_first().expect("there is layer 0");
    let line = descend::<C, L>(lines, upper, beyond(lane));
    let least = line * L::PER_LINE;
    near(least);
    // SAFETY: only called where `C`'s instructions are there.
    least + unsafe { C::count_below(&lines[leaves.offset + line], lane) }
}

/// The line of layer 0. As many steps as there are layers are compiled without a loop: the fewer instructions a lookup has, the
/// more lookups the processor has begun when one of them waits for memory.
#[inline(always)]
fn descend<C: Compare, L: PackedLane>(lines: &[L::Line], upper: &[Layer], beyond: L) -> usize {
    macro_rules! by_layers {
        ($($count:literal)*) => {
            match upper.len() {
                $($count => steps::<C, L, _>(lines, <&[Layer; $count]>::try_from(upper).expect("so many"), beyond),)*
                _ => steps::<C, L, _>(lines, upper, beyond),
            }
        };
    }
    by_layers!(2 3 4 5 6 7)
}

#[inline(always)]
fn steps<'l, C: Compare, L: PackedLane, U>(lines: &[L::Line], upper: U, beyond: L) -> usize
where
    U: IntoIterator<Item = &'l Layer, IntoIter: DoubleEndedIterator>,
{
    upper.into_iter().rev().fold(0, |line, layer| {
        // SAFETY: only called where `C`'s instructions are there.
        let child = unsafe { C::count_below(&lines[layer.offset + line], beyond) };
        line * (L::PER_LINE + 1) + child
    })
}

/// As `rank`, for a batch, of which each rank goes to `found`; `ranks` serves for the lines on the way.
#[inline(always)]
fn rank_many<C: Compare, L: PackedLane>(
    keys: &[L],
    layers: &[Layer],
    lanes: &[L],
    ranks: &mut [usize],
    found: impl Fn(usize),
) {
    let lines = L::lines(keys);
    ranks.fill(0);
    for (i, layer) in layers.iter().enumerate().skip(1).rev() {
        let (layer, below) = (&lines[layer.offset..], lines[layers[i - 1].offset..].as_ptr());
        for (line, &lane) in ranks.iter_mut().zip(lanes) {
            // SAFETY: only called where `C`'s instructions are there.
            let child = unsafe { C::count_below(&layer[*line], beyond(lane)) };
            *line = *line * (L::PER_LINE + 1) + child;
            foreshore_base::prefetch::prefetch_lines(below.wrapping_add(*line), 64);
        }
    }
    for (line, &lane) in ranks.iter_mut().zip(lanes) {
        // SAFETY: as above.
        *line = *line * L::PER_LINE + unsafe { C::count_below(&lines[*line], lane) };
        found(*line);
    }
}

/// The queries, compiled for an instruction set as a whole.
macro_rules! compiled_for {
    ($features:literal, $compare:ty, $one:ident, $many:ident) => {
        /// # Safety
        /// The processor has the features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $one<L: PackedLane>(keys: &[L], layers: &[Layer], lane: L, near: impl Fn(usize)) -> usize {
            rank::<$compare, L>(keys, layers, lane, near)
        }

        /// # Safety
        /// The processor has the features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $many<L: PackedLane>(
            keys: &[L],
            layers: &[Layer],
            lanes: &[L],
            ranks: &mut [usize],
            found: impl Fn(usize),
        ) {
            rank_many::<$compare, L>(keys, layers, lanes, ranks, found);
        }
    };
}

compiled_for!("avx2,popcnt", Avx2, rank_avx2, rank_many_avx2);
compiled_for!("avx512f,avx2,popcnt", Avx512, rank_avx512, rank_many_avx512);
