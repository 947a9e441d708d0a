//! Random calls on one file, against a vector of bytes, on every backend; in the simulation also across crashes.

mod support;

use foreshore_io::sim::Crash;
use foreshore_io::{Access, DirVfs, File, MemVfs, SimDisk, Vfs};
use proptest::prelude::*;
use support::TempDir;

#[derive(Clone, Debug)]
enum Call {
    Write { offset: usize, bytes: usize, value: u8 },
    SetLen(usize),
    Allocate(usize),
    Sync,
}

fn call() -> impl Strategy<Value = Call> {
    // Lengths near the edges of sectors and pages, where the copying could go wrong.
    let place = prop_oneof![0..20_000usize, (0..40usize).prop_map(|sector| sector * 512)];
    let length = prop_oneof![0..9000usize, (0..3usize).prop_map(|page| page * 4096)];
    prop_oneof![
        6 => (place.clone(), length, 1..=255u8)
            .prop_map(|(offset, bytes, value)| Call::Write { offset, bytes, value }),
        2 => place.clone().prop_map(Call::SetLen),
        1 => place.prop_map(Call::Allocate),
        1 => Just(Call::Sync),
    ]
}

fn apply_to_file(file: &dyn File, call: &Call) {
    match *call {
        Call::Write { offset, bytes, value } => file.write_at(&vec![value; bytes], offset as u64),
        Call::SetLen(bytes) => file.set_len(bytes as u64),
        Call::Allocate(bytes) => file.allocate(bytes as u64),
        Call::Sync => file.sync(),
    }
    .expect("a call without fault");
}

fn apply_to_model(model: &mut Vec<u8>, call: &Call) {
    match *call {
        Call::Write { bytes: 0, .. } | Call::Sync => {}
        Call::Write { offset, bytes, value } => {
            model.resize(model.len().max(offset + bytes), 0);
            model[offset..offset + bytes].fill(value);
        }
        Call::SetLen(bytes) => model.resize(bytes, 0),
        Call::Allocate(bytes) => model.resize(model.len().max(bytes), 0),
    }
}

fn content(vfs: &dyn Vfs) -> Vec<u8> {
    let file = vfs.open("a", Access::Buffered, false).expect("the file");
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn is_like_a_vector(vfs: &dyn Vfs, calls: &[Call]) -> Result<(), TestCaseError> {
    let file = vfs.open("a", Access::Buffered, true).expect("the file");
    let mut model = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        apply_to_file(&*file, call);
        apply_to_model(&mut model, call);
        prop_assert!(content(vfs) == model, "after call {number}, {call:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_is_like_a_vector(calls in prop::collection::vec(call(), 1..40)) {
        is_like_a_vector(&MemVfs::new(), &calls)?;
    }

    #[test]
    fn the_simulation_is_like_a_vector(calls in prop::collection::vec(call(), 1..40)) {
        is_like_a_vector(&SimDisk::new(1), &calls)?;
    }

    /// Each byte after a power loss is one that it had at or after the last sync, or zero; the same for the length.
    #[test]
    fn a_power_loss_brings_back_nothing_older_than_the_last_sync(
        calls in prop::collection::vec(call(), 1..40),
        seed: u64,
    ) {
        let disk = SimDisk::new(seed);
        let file = disk.open("a", Access::Buffered, true).expect("the file");
        disk.sync_dir().expect("no fault");
        let mut states = vec![Vec::new()];
        for call in &calls {
            apply_to_file(&*file, call);
            let mut state = states.last().expect("a state").clone();
            apply_to_model(&mut state, call);
            if matches!(call, Call::Sync) {
                states.clear();
            }
            states.push(state);
        }
        prop_assert_eq!(&content(&disk.after_crash(Crash::ProcessKill, seed)), states.last().expect("a state"));
        let survived = content(&disk.after_crash(Crash::PowerLoss, seed));
        let lengths = || states.iter().map(Vec::len);
        prop_assert!((lengths().min() <= Some(survived.len())) && (Some(survived.len()) <= lengths().max()));
        for (place, &byte) in survived.iter().enumerate() {
            let known = byte == 0 && states.len() > 1 || states.iter().any(|state| state.get(place) == Some(&byte));
            prop_assert!(known, "byte {place} is {byte}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_directory_is_like_a_vector(calls in prop::collection::vec(call(), 1..40)) {
        let dir = TempDir::on_disk();
        is_like_a_vector(&DirVfs::open(dir.path(), false).expect("the directory"), &calls)?;
    }
}
