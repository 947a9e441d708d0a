//! Every invariant of one leaf, and the name of the one that is broken.

use super::copy::LeafCopy;
use super::layout::{HEAD_BYTES, Limits};

impl LeafCopy {
    /// Checks the leaf: fences against the link, heap accounting and overlap (F4), order (F3), limits and fences (F1).
    /// Fences and prefix themselves (F1, F2) were checked when the copy was interpreted.
    pub fn check(&mut self) -> Result<(), String> {
        let result = self.check_link().and_then(|()| self.check_heap()).and_then(|()| self.check_rows());
        result.map_err(|detail| format!("page {}: {detail}", self.id()))
    }

    fn check_link(&self) -> Result<(), String> {
        match (self.high_fence(), self.right().is_none()) {
            (Some(_), true) => Err("a high fence but no right neighbour".into()),
            (None, false) => Err("a right neighbour but no high fence".into()),
            _ => Ok(()),
        }
    }

    /// Cells lie in the heap, do not overlap, and with the dead bytes account for all of it.
    fn check_heap(&self) -> Result<(), String> {
        let mut cells = Vec::with_capacity(self.len());
        for index in 0..self.len() {
            let slot = self.slot(index);
            let bytes = self.cell_bytes(slot).ok_or_else(|| format!("F4: cell {index} leaves the heap"))?;
            cells.push((slot.offset(), slot.offset() + bytes));
        }
        cells.sort_unstable();
        let mut end = self.layout().heap_start();
        for &(from, to) in &cells {
            if from < end {
                return Err(format!("F4: two cells share byte {from}"));
            }
            end = to;
        }
        let live: usize = cells.iter().map(|(from, to)| to - from).sum();
        let heap = self.layout().fences_start() - self.layout().heap_start();
        if live + self.layout().dead_bytes() != heap {
            return Err(format!(
                "F4: {live} live + {} dead bytes in a heap of {heap}",
                self.layout().dead_bytes()
            ));
        }
        Ok(())
    }

    fn check_rows(&mut self) -> Result<(), String> {
        let limits = Limits::for_page(self.layout().page_bytes());
        let mut last: Option<Vec<u8>> = None;
        for index in 0..self.len() {
            if zero_padding_broken(self.slot(index).head(), self.slot(index).suffix_len()) {
                return Err(format!("F3: the head of row {index} goes on beyond its key"));
            }
            let row = self.row(index).map_err(|e| e.to_string())?;
            if row.key.len() > limits.key_bytes_max || row.value.len() > limits.reference_bytes() {
                return Err(format!("row {index} is over the limits"));
            }
            if last.as_deref().is_some_and(|last| last >= row.key) {
                return Err(format!("F3: row {index} is not above the one before"));
            }
            let key = row.key.to_vec();
            if key.as_slice() < self.low_fence()
                || self.high_fence().is_some_and(|high| key.as_slice() >= high)
            {
                return Err(format!("F1: row {index} is outside the fences"));
            }
            last = Some(key);
        }
        Ok(())
    }
}

/// Does a head have bytes other than zero beyond the end of its suffix?
fn zero_padding_broken(head: u32, suffix_len: usize) -> bool {
    suffix_len < HEAD_BYTES && head.to_be_bytes()[suffix_len..].iter().any(|byte| *byte != 0)
}
