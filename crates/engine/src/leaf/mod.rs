//! One leaf page: the truth about the keys between its two fences.
//!
//! Layout: `ARCHITECTURE.md`, "Leaf page". Slots at the front keep the order, cells lie in a heap at the back, the
//! fences at the very end. A leaf lives in a frame ([`Page`](crate::page::Page)), where readers may race with a
//! writer, or as plain bytes ([`LeafCopy`], [`Builder`], packed images), where nobody does.
//!
//! Why so: fences make a leaf self-validating, so the index above may be stale (B-link, Lehman and Yao 1981; OLFIT,
//! Cha et al. 2001); slots with 4-byte heads let a search stay within the slots (Bf-Tree's look-ahead, Hao and
//! Chandramouli 2024); prefix truncation and short separators are Bayer and Unterauer's prefix B-tree (1977).
//!
//! Differs: the first four bytes of a suffix are kept in the slot *only*; the cell goes on with the fifth. So heads
//! are part of the key and cannot disagree with it, and a short key costs nothing in its cell.
//!
//! | file | concept |
//! |---|---|
//! | `layout` | where things lie; limits of keys and values |
//! | `search` | a suffix among the slots |
//! | `read`, `write` | optimistic reads; changes under the latch |
//! | `split`, `absorb` | the upper part moves to a new neighbour; a neighbour is taken in |
//! | `copy`, `builder`, `image` | leaves in private memory: copied out, filled anew, packed for the log |
//! | `change`, `patch` | what the log says about leaves, and how it is done again; what differs between two values |
//! | `check` | which invariant is broken |
//!
//! Invariants:
//! - F1: every key `k` of a leaf satisfies low ≤ k < high. The low fence never changes while the page id lives (rule 4).
//! - F2: all keys between the fences begin with the fences' common prefix. A reader that compared its key with the
//!   fences therefore never compares the prefix.
//! - F3: slots are strictly ascending by key.
//! - F4: heap bytes = cells + dead bytes + fences: nothing overlaps, nothing is lost.
//! - F5: whether a cell has room depends only on what the leaf holds, not on where it lies. So a replayed record
//!   finds the room that the original found, although the replayed heap may be arranged differently.
//! - F6: any cell that [`Limits`] admits fits between any two fences, and each split leaves fewer cells beside the
//!   incoming one: splitting repeatedly always makes room (twice is enough, see `split`).

mod absorb;
mod builder;
mod change;
mod check;
mod copy;
mod image;
mod layout;
mod patch;
mod read;
mod search;
mod split;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use absorb::{Absorb, is_past_absorbing};
pub(crate) use builder::Builder;
pub(crate) use change::{Change, Rows};
pub(crate) use copy::{FEW_ROWS, LeafCopy};
pub(crate) use layout::{KEY_BYTES_MAX, Limits, is_page_size};
pub(crate) use patch::{difference, exchange};
pub(crate) use read::{
    Cell, Route, Window, first_key, get, ghosts, high_fence, is_above_all, is_underfull, lookup, lookup_near,
};
pub(crate) use read::{
    next_key, prefetch_cell, prefetch_place, prefetch_slots, previous_key, route, route_before,
};
pub(crate) use split::{Split, has_room_for_fence, separator};
pub(crate) use write::{Place, format, place};
#[cfg(test)]
pub(crate) use {
    read::contains,
    write::{remove, upsert},
};
