//! Leaf sizes: which of them a page has is told by its id.
//!
//! Why: redo, the directory and a rebuild meet page ids before any table is known. If the id says in which file its page
//! lies, nothing else has to, and no two places can contradict each other: a table's leaf size is that of its leaves.
//! Source: size classes of memory allocators.
//!
//! The upper half of an id is the number of its size, 0 for the size that the database was made with; so in a database with
//! one size ids are small numbers. The lower half is the page's number among those of its size, from 1 on.

use crate::error::Result;
use crate::file_names;
use crate::leaf::is_page_size;
use foreshore_base::PageId;
use foreshore_io::Vfs;

/// Pages of one size are numbered below this.
pub(super) const PAGES_MAX: u64 = 1 << 32;

/// A leaf size, as page ids name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SizeClass(u8);

/// By class.
const FILES: [&str; SizeClass::COUNT] =
    ["leaves.db", "leaves-4k.db", "leaves-8k.db", "leaves-16k.db", "leaves-32k.db"];

impl SizeClass {
    /// The size that the database was made with.
    pub const OWN: Self = Self(0);
    /// How many classes there are.
    pub const COUNT: usize = 5;

    /// All of them, the database's own size first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }

    /// The class of leaves of `leaf_bytes`, in a database whose own ones have `own_bytes`. Panics if no leaf has that size.
    pub fn of_bytes(leaf_bytes: usize, own_bytes: usize) -> Self {
        assert!(is_page_size(leaf_bytes), "no leaf has {leaf_bytes} bytes");
        match leaf_bytes == own_bytes {
            true => Self::OWN,
            false => Self((leaf_bytes.ilog2() - 11) as u8),
        }
    }

    /// Bytes of its leaves, in a database whose own ones have `own_bytes`.
    pub fn bytes(self, own_bytes: usize) -> usize {
        if self == Self::OWN { own_bytes } else { 1 << (self.0 + 11) }
    }

    /// The database's own class, and each other one that has a file.
    pub fn on_disk(vfs: &dyn Vfs) -> Result<Vec<Self>> {
        let names = file_names::list(vfs)?;
        Ok(Self::all()
            .filter(|class| *class == Self::OWN || names.iter().any(|name| name == class.file()))
            .collect())
    }

    /// The class that an id names; `None` if no page can have this id.
    #[inline]
    pub fn of(pid: PageId) -> Option<Self> {
        let class = pid.0 / PAGES_MAX;
        (class < Self::COUNT as u64 && !pid.0.is_multiple_of(PAGES_MAX)).then_some(Self(class as u8))
    }

    /// The id before the first one of this class. It is no page's.
    pub fn base(self) -> PageId {
        PageId(u64::from(self.0) * PAGES_MAX)
    }

    /// The file in which its leaves lie.
    pub fn file(self) -> &'static str {
        FILES[self.index()]
    }

    /// Its place in an array of all classes.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The place of a page among those of its class.
fn number(pid: PageId) -> usize {
    (pid.0 % PAGES_MAX) as usize
}

/// Pages whose values lie together.
const CHUNK_PAGES: usize = 1 << 10;

/// A value for each page. Page ids are dense, but a damaged file may name any: memory is taken in chunks.
#[derive(Clone, Debug)]
pub(crate) struct ByPage<T> {
    classes: [Vec<Option<Box<[T]>>>; SizeClass::COUNT],
}

impl<T> Default for ByPage<T> {
    fn default() -> Self {
        Self { classes: Default::default() }
    }
}

impl<T: Clone + Default> ByPage<T> {
    /// Replaces the value of a page. Panics if no page can have this id.
    pub fn set(&mut self, pid: PageId, value: T) {
        let class = SizeClass::of(pid).unwrap_or_else(|| panic!("{pid} is no page's id"));
        let (chunks, i) = (&mut self.classes[class.index()], number(pid));
        let chunk = i / CHUNK_PAGES;
        if chunk >= chunks.len() {
            chunks.resize_with(chunk + 1, || None);
        }
        let values = chunks[chunk].get_or_insert_with(|| vec![T::default(); CHUNK_PAGES].into());
        values[i % CHUNK_PAGES] = value;
    }

    /// The value of a page, if one was set for it or for one of its neighbours.
    pub fn get(&self, pid: PageId) -> Option<&T> {
        let i = number(pid);
        let chunk = self.classes[SizeClass::of(pid)?.index()].get(i / CHUNK_PAGES)?;
        Some(&chunk.as_ref()?[i % CHUNK_PAGES])
    }

    /// All values by ascending page id, those of neighbours included that were never set.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.classes.into_iter().flatten().flatten().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ids_name_each_other() {
        const OWN_BYTES: usize = 8192;
        for bytes in [4096, 8192, 16384, 32768] {
            let class = SizeClass::of_bytes(bytes, OWN_BYTES);
            assert_eq!(class.bytes(OWN_BYTES), bytes);
            let base = class.base();
            assert_eq!(SizeClass::of(base), None);
            assert_eq!(SizeClass::of(PageId(base.0 + 1)), Some(class));
            assert_eq!(SizeClass::of(PageId(base.0 + PAGES_MAX - 1)), Some(class));
            assert_eq!(class == SizeClass::OWN, bytes == OWN_BYTES);
            assert!(class == SizeClass::OWN || class.file().contains(&format!("{}k", bytes >> 10)));
        }
        assert_eq!(SizeClass::of(PageId(SizeClass::COUNT as u64 * PAGES_MAX + 1)), None);
        assert_eq!(SizeClass::of(PageId(u64::MAX)), None);
    }

    #[test]
    fn values_come_back_in_the_order_of_ids() {
        let mut by_page = ByPage::default();
        let other = PageId(3 * PAGES_MAX + 2);
        by_page.set(other, 7);
        by_page.set(PageId(1), 5);
        assert_eq!((by_page.get(other), by_page.get(PageId(1))), (Some(&7), Some(&5)));
        assert_eq!(by_page.get(PageId(CHUNK_PAGES as u64)), None);
        assert_eq!(by_page.get(PageId(u64::MAX)), None);
        assert_eq!(by_page.into_values().filter(|value| *value > 0).collect::<Vec<_>>(), [5, 7]);
    }
}
