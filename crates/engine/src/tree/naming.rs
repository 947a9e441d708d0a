//! A table's name, which may change while others read it.
//!
//! Who has asked for it keeps what he was told for as long as he has the table: so the names before stay, too.

use std::sync::OnceLock;

/// See the module.
pub(crate) struct Naming {
    name: String,
    /// The one that took its place.
    next: OnceLock<Box<Naming>>,
}

impl Naming {
    pub fn new(name: String) -> Self {
        Self { name, next: OnceLock::new() }
    }

    /// The name now.
    pub fn name(&self) -> &str {
        &self.last().name
    }

    /// From now on the name is `name`. One at a time changes it.
    pub fn change(&self, name: String) {
        self.last().next.get_or_init(|| Box::new(Self::new(name)));
    }

    fn last(&self) -> &Self {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }
}

impl Drop for Naming {
    /// One after the other: each within the drop of the one before, many would not fit on the stack.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut naming) = next {
            next = naming.next.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was told stays true to who has it; and a table may change its name as often as it likes.
    #[test]
    fn names_stay_for_who_has_them() {
        let naming = Naming::new("0".into());
        let first = naming.name();
        let mut last = &naming;
        for n in 1..=200_000 {
            last.change(n.to_string()); // from the last one on: all the way each time would take long
            last = last.last();
        }
        assert_eq!((first, naming.name()), ("0", "200000"));
    }
}
