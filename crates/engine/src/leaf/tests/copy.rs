//! Copies of a few rows are what the whole copy says of them.

use super::super::copy::FEW_ROWS;
use super::*;

const ROWS: usize = 60;

/// Keys share the fences' prefix and, every third, their first four bytes behind it.
fn key(row: usize) -> Vec<u8> {
    format!("pre{:02}{}", row / 3, "x".repeat(row % 3 * 3)).into_bytes()
}

/// Their cells lie in the order in which they came.
fn leaf_of_rows(ascending: bool) -> Words {
    let words = RelaxedBytes::boxed(8192);
    format(page(&words), FIRST, TABLE, b"pre", Some(b"pref"), PageId::NONE);
    let mut random = Random(11);
    let mut rows: Vec<usize> = (0..ROWS).collect();
    while !rows.is_empty() {
        let row = if ascending { rows.remove(0) } else { rows.swap_remove(random.pick(rows.len())) };
        let value = vec![row as u8; random.pick(60)];
        assert!(upsert(page(&words), &key(row), &value, row as u64).unwrap());
    }
    words
}

#[test]
fn few_rows_are_those_next_to_the_key() {
    for ascending in [false, true] {
        // What an earlier, larger copy left in the memory must not show.
        let other = leaf_of_rows(!ascending);
        few_rows_are_those_of_the_whole(&leaf_of_rows(ascending), LeafCopy::of(page(&other)).unwrap());
    }
}

fn few_rows_are_those_of_the_whole(words: &Words, mut few: LeafCopy) {
    let mut whole = LeafCopy::of(page(words)).unwrap();
    for row in 0..ROWS {
        for (sought, below, above) in [
            (key(row), row, row + 1),
            ([key(row), b"\0".to_vec()].concat(), row + 1, row + 1),
            (b"pre".to_vec(), 0, 0),
            (b"prez".to_vec(), ROWS, ROWS),
        ] {
            for inclusive in [true, false] {
                for rows in [FEW_ROWS, 3 * FEW_ROWS] {
                    few.take_above(page(words), &sought, inclusive, rows).unwrap();
                    few.interpret().unwrap();
                    let start = if inclusive { below } else { above };
                    assert_eq!(few.rows(), start..(start + rows).min(ROWS), "above {sought:?}");
                    same_rows(&mut few, &mut whole);
                }

                few.take_below(page(words), &sought, inclusive).unwrap();
                few.interpret().unwrap();
                let end = if inclusive { above } else { below };
                assert_eq!(few.rows(), end.saturating_sub(16)..end, "below {sought:?}");
                same_rows(&mut few, &mut whole);
            }
        }
    }
}

fn same_rows(few: &mut LeafCopy, whole: &mut LeafCopy) {
    assert_eq!((few.len(), few.right(), few.id()), (whole.len(), whole.right(), whole.id()));
    assert_eq!((few.low_fence(), few.high_fence()), (whole.low_fence(), whole.high_fence()));
    for index in few.rows() {
        assert_eq!(few.row(index).unwrap(), whole.row(index).unwrap());
        let row = whole.row(index).unwrap();
        assert_eq!(few.peek(index).unwrap(), (row.version, row.value.len()));
    }
}
