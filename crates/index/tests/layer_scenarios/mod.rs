//! Schedules of layers and bags: bursts, closings and lookups in between.
//!
//! The parent names the map of names: `type Names = …`, whose bags hold two tails.

use super::Ints;
use super::scenarios::{explore, ints, together};

/// Sixteen keys share the fifteen bytes of the first slice, and go on behind it.
pub fn name(key: u64) -> Vec<u8> {
    format!("shared/by/{:05}/{:02}", key / 16, key % 16).into_bytes()
}

pub fn number(name: &[u8]) -> u64 {
    let number = |digits: &[u8]| std::str::from_utf8(digits).unwrap().parse::<u64>().unwrap();
    number(&name[10..15]) * 16 + number(&name[16..])
}

/// A bag is read while it is replaced, and while it bursts into a layer.
#[test]
fn burst_and_readers() {
    explore(|| {
        let map = ints([1, 2]);
        together(
            &map,
            vec![
                Box::new(|m| [3, 4].into_iter().for_each(|k| assert_eq!(m.insert(k, k), None))),
                Box::new(|m| [1, 2].into_iter().for_each(|k| assert_eq!(m.get(k), Some(k)))),
                Box::new(|m| {
                    assert_eq!(m.floor(2), Some(2));
                    assert!(matches!(m.floor(5), Some(2..=4)));
                    assert_eq!(m.below(1), None);
                }),
            ],
        );
        assert_eq!(map.0.stats().bursts, 1);
    });
}

/// Two threads replace one bag, which bursts under one of them: neither's tail is lost.
#[test]
fn one_bag_and_two_writers() {
    explore(|| {
        let map = ints([1]);
        together(
            &map,
            vec![
                Box::new(|m| [2, 3].into_iter().for_each(|k| assert_eq!(m.insert(k, k), None))),
                Box::new(|m| {
                    assert_eq!(m.insert(4, 4), None);
                    assert_eq!(m.remove(1), Some(1));
                }),
            ],
        );
        assert!(map.range(..).map(|(k, _)| k).eq([2, 3, 4]));
    });
}

/// Two threads claim a name and give it back, in a layer that is closed meanwhile: it is never both's.
#[test]
fn closing_and_claims() {
    let claim = |m: &Ints| {
        let name = name(5);
        if m.0.compare_exchange(&name, None, Some(5)).is_ok() {
            assert_eq!(m.0.compare_exchange(&name, None, Some(6)), Err(Some(5)));
            assert_eq!(m.0.compare_exchange(&name, Some(5), None), Ok(()));
        }
    };
    explore(move || {
        let map = ints([1, 2, 3, 40]);
        together(
            &map,
            vec![
                Box::new(|m| {
                    let mut gone =
                        [1, 2, 3].into_iter().map(|k| m.0.compare_exchange(&name(k), Some(k), None));
                    assert!(gone.all(|answer| answer == Ok(())));
                }),
                Box::new(claim),
                Box::new(claim),
            ],
        );
        assert!(map.range(..).map(|(k, _)| k).eq([40]));
    });
}

/// A layer is emptied and closed while keys of its slice come back: they are found where everybody looks.
#[test]
fn closing_and_inserts() {
    explore(|| {
        let map = ints([1, 2, 3, 40]);
        together(
            &map,
            vec![
                Box::new(|m| [1, 2, 3].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| {
                    assert_eq!(m.insert(5, 5), None);
                    assert_eq!(m.get(5), Some(5));
                }),
            ],
        );
        assert!(map.range(..).map(|(k, _)| k).eq([5, 40]));
    });
}

/// Two threads empty a layer together: one of them closes it, once.
#[test]
fn closing_and_closing() {
    explore(|| {
        let map = ints([1, 2, 3, 40]);
        together(
            &map,
            vec![
                Box::new(|m| [1, 2].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| {
                    assert_eq!(m.remove(3), Some(3));
                    assert_eq!(m.insert(3, 4), None);
                    assert_eq!(m.remove(3), Some(4));
                }),
            ],
        );
        assert!(map.range(..).map(|(k, _)| k).eq([40]));
        assert_eq!(map.0.stats().layers, 1);
        assert!(map.0.stats().closed >= 1);
    });
}

/// Lookups come through a layer while it dies: they find what stays on its left, and its memory is not given back
/// under them.
#[test]
fn closing_and_readers() {
    explore(|| {
        let map = ints([7, 17, 18, 19, 40]);
        together(
            &map,
            vec![
                Box::new(|m| [17, 18, 19].into_iter().for_each(|k| assert_eq!(m.remove(k), Some(k)))),
                Box::new(|m| {
                    assert!(matches!(m.floor(20), Some(7 | 17..=19)));
                    assert!(matches!(m.get(18), None | Some(18)));
                    assert_eq!(m.below(17), Some(7));
                }),
                Box::new(|m| {
                    let keys: Vec<u64> = m.range(..).map(|(k, _)| k).collect();
                    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
                    assert!(keys.contains(&7) && keys.contains(&40), "{keys:?}");
                }),
            ],
        );
    });
}
