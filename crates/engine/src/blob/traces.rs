//! What the leaves of a table tell of its large values, or of whose it holds, where the catalog's row is lost, or older.

use super::{BlobId, Part, Reference};
use crate::error::{Error, Result};
use crate::leaf::LeafCopy;
use crate::tree::Tree;
use std::collections::HashSet;

/// See the module.
#[derive(Default)]
pub(crate) struct Traces {
    pub has_rows: bool,
    /// The large values that its rows refer to.
    references: HashSet<BlobId>,
    /// The values that it has pieces of, if it is a hidden table.
    pieces: HashSet<BlobId>,
}

impl Traces {
    /// May it be a hidden table?
    pub fn has_pieces(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// How many of this table's large values the other one holds.
    pub fn leading_to(&self, other: &Self) -> usize {
        self.references.intersection(&other.pieces).count()
    }

    fn note(&mut self, table: &Tree, key: &[u8], value: &[u8]) {
        self.has_rows = true;
        if table.is_large(value.len()) {
            self.references.insert(Reference::of(value).id);
        } else if let Some(Part::Piece(_, id, _)) = Part::of(key) {
            self.pieces.insert(id);
        }
    }
}

impl Tree {
    /// Reads all leaves that there are.
    pub(crate) fn traces(&self) -> Result<Traces> {
        let (mut traces, mut copy) = (Traces::default(), LeafCopy::new(self.leaf_bytes()));
        for low in self.low_fences() {
            match self.trace_leaf(&low, &mut copy, &mut traces) {
                Err(Error::Corrupt { .. }) => {} // costs its own rows
                traced => traced?,
            }
        }
        Ok(traces)
    }

    fn trace_leaf(&self, low: &[u8], copy: &mut LeafCopy, traces: &mut Traces) -> Result<()> {
        self.copy_leaf(None, low, copy)?;
        for at in copy.rows() {
            let row = copy.row(at)?;
            traces.note(self, row.key, row.value);
        }
        Ok(())
    }
}
