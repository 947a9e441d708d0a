//! The header every page shares, and the way between a frame and a disk image.
//!
//! Layout: `ARCHITECTURE.md`, "Leaf page". Used by `pool` (ids, LSNs, images) and `leaf` (everything else).
//!
//! Invariants:
//! - P1: word 0 of a frame is its latch and never leaves memory; word 0 of an image holds format and checksum.
//! - P2: an image that does not carry its own page id and a matching checksum is never used.

use crate::leaf::KEY_BYTES_MAX;
use foreshore_base::{Lsn, NodeLatch, PageId, RelaxedBytes, TableId};

/// Bytes of the header; slots follow.
pub(crate) const HEADER_BYTES: usize = 64;

/// High fence length that means "no upper bound".
pub(crate) const INFINITE: u16 = u16::MAX;

const FORMAT: u64 = 1;
const MAGIC: u64 = u16::from_le_bytes(*b"FL") as u64;
const DEAD: u64 = 1;

const PAGE_ID: usize = 1;
const PAGE_LSN: usize = 2;
const RIGHT: usize = 3;
const TABLE_FLAGS_PREFIX: usize = 4;
const CELLS_HEAP_DEAD_LOW: usize = 5;
const HIGH: usize = 6;

/// Words 4 to 6 of a page, taken at once: three loads instead of one per field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The table this leaf belongs to.
    pub table: TableId,
    /// Flag bits; bit 0 = dead.
    pub flags: u16,
    /// Bytes that all keys of the leaf share.
    pub prefix_len: u16,
    /// Number of cells.
    pub cells: u16,
    /// Offset of the lowest used heap byte.
    pub heap_start: u16,
    /// Heap bytes that no slot refers to any more.
    pub dead_bytes: u16,
    /// Length of the low fence.
    pub low_len: u16,
    /// Length of the high fence, or [`INFINITE`].
    pub high_len: u16,
}

impl Header {
    /// Number of the first word that a header is read from.
    pub const FIRST_WORD: usize = TABLE_FLAGS_PREFIX;

    /// Reads words 4, 5 and 6.
    #[inline]
    pub fn from_words(words: [u64; 3]) -> Self {
        let [table, counts, high] = words;
        Self {
            table: TableId(table as u32),
            flags: (table >> 32) as u16,
            prefix_len: (table >> 48) as u16,
            cells: counts as u16,
            heap_start: (counts >> 16) as u16,
            dead_bytes: (counts >> 32) as u16,
            low_len: (counts >> 48) as u16,
            high_len: high as u16,
        }
    }

    /// The words 4, 5 and 6 that say this.
    pub fn to_words(self) -> [u64; 3] {
        [
            u64::from(self.table.0) | u64::from(self.flags) << 32 | u64::from(self.prefix_len) << 48,
            counts_word(self.cells, self.heap_start, self.dead_bytes, self.low_len),
            u64::from(self.high_len),
        ]
    }

    /// Was this leaf absorbed by its left neighbour?
    #[inline]
    pub fn is_dead(self) -> bool {
        u64::from(self.flags) & DEAD != 0
    }
}

#[inline]
fn counts_word(cells: u16, heap_start: u16, dead_bytes: u16, low_len: u16) -> u64 {
    u64::from(cells) | u64::from(heap_start) << 16 | u64::from(dead_bytes) << 32 | u64::from(low_len) << 48
}

/// A page in a frame (or any word-atomic memory), seen through its header. Reads may race with a writer, so each is
/// only as good as a later validation; writes need the exclusive latch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a>(pub &'a RelaxedBytes);

impl<'a> Page<'a> {
    /// The latch in word 0.
    #[inline]
    pub fn latch(self) -> &'a NodeLatch {
        NodeLatch::from_word(&self.0.words()[0])
    }

    /// The page's id; [`PageId::NONE`] in a frame that holds no page.
    #[inline]
    pub fn id(self) -> PageId {
        PageId(self.0.word(PAGE_ID))
    }

    /// Sets [`Page::id`].
    #[inline]
    pub fn set_id(self, id: PageId) {
        self.0.set_word(PAGE_ID, id.0);
    }

    /// End of the last log record applied.
    #[inline]
    pub fn lsn(self) -> Lsn {
        Lsn(self.0.word(PAGE_LSN))
    }

    /// Sets [`Page::lsn`].
    #[inline]
    pub fn set_lsn(self, lsn: Lsn) {
        self.0.set_word(PAGE_LSN, lsn.0);
    }

    /// The right neighbour; [`PageId::NONE`] ends the chain.
    #[inline]
    pub fn right(self) -> PageId {
        PageId(self.0.word(RIGHT))
    }

    /// The table this leaf belongs to.
    #[inline]
    pub fn table(self) -> TableId {
        TableId(self.0.word(TABLE_FLAGS_PREFIX) as u32)
    }

    /// All of words 4 to 6.
    #[inline]
    pub fn header(self) -> Header {
        let word = |i| self.0.word(Header::FIRST_WORD + i);
        Header::from_words([word(0), word(1), word(2)])
    }

    /// Sets number of cells, heap start and dead bytes by one store.
    #[inline]
    pub fn set_counts(self, cells: u16, heap_start: u16, dead_bytes: u16) {
        self.0
            .set_word(CELLS_HEAP_DEAD_LOW, counts_word(cells, heap_start, dead_bytes, self.header().low_len));
    }

    /// Was this leaf absorbed by its left neighbour?
    #[inline]
    pub fn is_dead(self) -> bool {
        self.header().is_dead()
    }

    /// Marks the leaf as absorbed.
    pub fn set_dead(self) {
        self.0.set_word(TABLE_FLAGS_PREFIX, self.0.word(TABLE_FLAGS_PREFIX) | DEAD << 32);
    }

    /// Copies the low fence out: the last `low_len` bytes of the page. `None` if the length read is torn.
    pub fn low_fence(self) -> Option<Vec<u8>> {
        let len = usize::from(self.header().low_len);
        let at = self.0.len().checked_sub(len).filter(|at| *at >= HEADER_BYTES)?;
        let mut fence = Vec::new();
        self.0.append_to(at, len, &mut fence);
        Some(fence)
    }
}

/// Single fields, for pages made by hand in tests.
#[cfg(test)]
impl Page<'_> {
    fn change_header(self, change: impl FnOnce(&mut Header)) {
        let mut header = self.header();
        change(&mut header);
        for (i, word) in header.to_words().into_iter().enumerate() {
            self.0.set_word(Header::FIRST_WORD + i, word);
        }
    }

    /// Sets the table.
    pub fn set_table(self, table: TableId) {
        self.change_header(|header| header.table = table);
    }

    /// Sets the flag bits.
    pub fn set_flags(self, flags: u16) {
        self.change_header(|header| header.flags = flags);
    }

    /// Sets the length of the low fence.
    pub fn set_low_len(self, len: u16) {
        self.change_header(|header| header.low_len = len);
    }

    /// Sets the length of the high fence.
    pub fn set_high_len(self, len: u16) {
        self.change_header(|header| header.high_len = len);
    }
}

/// Copies a page into `image` as it goes to disk: word 0 becomes format and checksum. The caller makes sure that the
/// page does not change meanwhile (latch or validation). Panics if the sizes differ.
pub(crate) fn seal(page: Page<'_>, image: &mut [u8]) {
    assert_eq!(image.len(), page.0.len());
    page.0.read(8, &mut image[8..]);
    let checksum = u64::from(crc32c::crc32c(&image[8..]));
    image[..8].copy_from_slice(&(MAGIC | FORMAT << 16 | checksum << 32).to_le_bytes());
}

/// Is `image` page `id`, as it was written? Says what is wrong otherwise (P2).
pub(crate) fn verify(image: &[u8], id: PageId) -> Result<(), String> {
    let found = verify_any(image)?;
    if found == id { Ok(()) } else { Err(format!("expected page {id}, found page {found}")) }
}

/// Is `image` some page, as it was written? Which one, or what is wrong.
pub(crate) fn verify_any(image: &[u8]) -> Result<PageId, String> {
    let word = Image(image).word(0);
    if word & 0xFFFF != MAGIC {
        return Err("this slot holds no leaf page".into());
    }
    if word >> 16 & 0xFFFF != FORMAT {
        return Err(format!("leaf format {} is not known to this version", word >> 16 & 0xFFFF));
    }
    if word >> 32 != u64::from(crc32c::crc32c(&image[8..])) {
        return Err("the checksum does not match".into());
    }
    // The directory will say it, and then an index.
    if Image(image).low_fence().is_some_and(|low| low.len() > KEY_BYTES_MAX) {
        return Err("its low fence is longer than any key".into());
    }
    Ok(Image(image).id())
}

/// The header fields of a private copy of a page.
#[derive(Clone, Copy)]
pub(crate) struct Image<'a>(pub &'a [u8]);

impl<'a> Image<'a> {
    fn word(self, index: usize) -> u64 {
        u64::from_le_bytes(self.0[index * 8..][..8].try_into().expect("eight bytes"))
    }

    /// As [`Page::id`].
    pub fn id(self) -> PageId {
        PageId(self.word(PAGE_ID))
    }

    /// As [`Page::lsn`].
    pub fn lsn(self) -> Lsn {
        Lsn(self.word(PAGE_LSN))
    }

    /// As [`Page::table`].
    pub fn table(self) -> TableId {
        TableId(self.word(TABLE_FLAGS_PREFIX) as u32)
    }

    /// As [`Page::is_dead`].
    pub fn is_dead(self) -> bool {
        self.word(TABLE_FLAGS_PREFIX) >> 32 & DEAD != 0
    }

    /// As [`Page::low_fence`].
    pub fn low_fence(self) -> Option<&'a [u8]> {
        self.heap_end(0, (self.word(CELLS_HEAP_DEAD_LOW) >> 48) as usize)
    }

    /// The high fence, which lies before the low one. `Some(None)` if there is no upper bound, `None` if the lengths
    /// cannot be.
    pub fn high_fence(self) -> Option<Option<&'a [u8]>> {
        let low = self.low_fence()?.len();
        match self.word(HIGH) as u16 {
            INFINITE => Some(None),
            len => self.heap_end(low, usize::from(len)).map(Some),
        }
    }

    /// `len` bytes that end `after` bytes before the end.
    fn heap_end(self, after: usize, len: usize) -> Option<&'a [u8]> {
        let end = self.0.len().checked_sub(after)?;
        let start = end.checked_sub(len).filter(|start| *start >= HEADER_BYTES)?;
        Some(&self.0[start..end])
    }
}

/// Copies a verified image into a frame whose exclusive latch the caller holds, sparing the latch word (P1).
pub(crate) fn load(image: &[u8], page: Page<'_>) {
    assert_eq!(image.len(), page.0.len());
    page.0.write(8, &image[8..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_comes_back_and_a_flipped_bit_does_not() {
        let words = RelaxedBytes::boxed(4096);
        let page = Page(RelaxedBytes::new(&words));
        page.set_id(PageId(7));
        page.set_lsn(Lsn(99));
        page.set_table(TableId(3));
        page.set_counts(5, 4092, 0);
        page.set_low_len(4);
        page.set_high_len(INFINITE);
        page.0.write(4092, b"fish");
        let mut image = vec![0; 4096];
        seal(page, &mut image);
        verify(&image, PageId(7)).unwrap();
        assert!(verify(&image, PageId(8)).unwrap_err().contains("expected page 8"));

        let words = RelaxedBytes::boxed(4096);
        let copy = Page(RelaxedBytes::new(&words));
        load(&image, copy);
        assert_eq!(
            (copy.id(), copy.lsn(), copy.table(), copy.header().cells),
            (PageId(7), Lsn(99), TableId(3), 5)
        );
        assert_eq!(copy.low_fence().unwrap(), b"fish");
        assert!(!copy.is_dead());
        copy.set_dead();
        assert!(copy.is_dead());
        copy.set_flags(0);
        assert_eq!(copy.header(), page.header());

        image[100] ^= 1;
        assert!(verify(&image, PageId(7)).unwrap_err().contains("checksum"));
    }
}
