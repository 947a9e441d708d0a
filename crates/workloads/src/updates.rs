//! Was an update lost? What threads did is drawn again at the end: a table of it in memory would be measured with the engine.

/// The first row that does not hold what it may: the last stamp that some thread gave it in the last phase in which any did, or
/// else 0, that of the load. `stamps` are those found. `phases` tells each thread's updates, rows and stamps, in order.
pub(crate) fn first_lost<U: Iterator<Item = (u64, u32)>>(
    stamps: &[u32],
    phases: impl DoubleEndedIterator<Item = Vec<U>>,
) -> Option<usize> {
    let mut is_loaded = vec![true; stamps.len()];
    let mut last = vec![0; stamps.len()];
    for threads in phases.rev() {
        let (mut is_updated, mut is_found) = (vec![false; stamps.len()], vec![false; stamps.len()]);
        for updates in threads {
            last.fill(0);
            updates.for_each(|(row, stamp)| last[row as usize] = stamp);
            for (row, stamp) in last.iter().enumerate().filter(|(_, stamp)| **stamp != 0) {
                is_updated[row] = true;
                is_found[row] |= *stamp == stamps[row];
            }
        }
        for row in (0..stamps.len()).filter(|row| is_updated[*row]) {
            if std::mem::replace(&mut is_loaded[row], false) && !is_found[row] {
                return Some(row);
            }
        }
    }
    (0..stamps.len()).find(|row| is_loaded[*row] && stamps[*row] != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_what_a_thread_gave_it_last_in_the_last_phase() {
        let first = || vec![vec![(0, 1), (1, 3), (1, 5)].into_iter()];
        let second = || vec![vec![(0, 7), (0, 9)].into_iter(), vec![(0, 11)].into_iter()];
        let lost = |stamps: &[u32; 3]| first_lost(stamps, [first(), second()].into_iter());
        assert_eq!((lost(&[9, 5, 0]), lost(&[11, 5, 0])), (None, None));
        for (stamps, row) in [([7, 5, 0], 0), ([1, 5, 0], 0), ([9, 3, 0], 1), ([9, 0, 0], 1), ([9, 5, 5], 2)]
        {
            assert_eq!(lost(&stamps), Some(row), "{stamps:?}");
        }
    }
}
