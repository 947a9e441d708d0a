//! Known bugs, and the tests that must catch them. A test that cannot find its bug is no test.
//!
//! One build with `--cfg seeded_bugs` serves for all of them: it takes the bug's name from the environment
//! (`crates/base/src/seeded.rs`). The builds for model checkers are those of CI's own steps, which name no bug.

use crate::step::{Cargo, Step, Work, choose, run_all};
use std::io;
use std::time::Duration;

/// What a catch may take, compiling apart.
const CAUGHT_WITHIN: Duration = Duration::from_secs(60);

/// A bug and what catches it.
struct Bug {
    /// The name that the code asks for.
    name: &'static str,
    /// `""`, `"loom"` or `"shuttle"`: the model checker that the test runs under.
    checker: &'static str,
    /// What `cargo test` builds. Model checkers want `--release`; the rest shares the build of `cargo test --workspace`.
    test_args: &'static str,
    /// The test that must fail, by its full name; it runs alone.
    test: &'static str,
    /// Is this one of those that every CI run tries?
    in_ci: bool,
}

/// Every seeded bug: name, what its test runs under, the test, whether CI tries it.
const BUGS: &[Bug] = &[
    IO.bug("dir_allocate_cuts", "allocate_grows_with_zeros_and_never_shrinks", LONG),
    IO_PROCESS.bug("lock_given_up_by_child", "a_forked_child_cannot_give_up_its_parents_lock", LONG),
    IO_MODEL.bug(
        "sim_sync_forgets_growth",
        "a_power_loss_brings_back_nothing_older_than_the_last_sync",
        LONG,
    ),
    IO_FAULTS.bug(
        "sim_failed_sync_can_be_retried",
        "a_sync_that_succeeds_after_a_failed_one_proves_nothing",
        LONG,
    ),
    RING.bug("log_complete_order", "a_completed_record_has_its_body", LONG),
    RING.bug("log_ring_gap", "a_word_of_the_last_lap_is_never_a_record", LONG),
    STANDING.bug("txn_announced_relaxed", "who_is_older_than_the_oldest_has_ended", LONG),
    STANDING.bug("txn_commit_unannounced", "who_runs_commits_later", LONG),
    SHOWN.bug("lock_shown_without_fence", "a_shown_reader_keeps_a_writer_out", LONG),
    SHOWN.bug("lock_shown_again_unnoticed", "a_place_that_is_used_again_is_another", LONG),
    GATE.bug("layer_leavers_not_seen", "who_empty_a_layer_together_close_it", LONG),
    LATCH.bug("latch_validate_fence", "a_reader_never_sees_half_an_update", CI),
    LATCH.bug("latch_upgrade_fence", "a_reader_never_sees_half_an_update", CI),
    LATCH.bug("latch_release_order", "updates_are_not_lost", LONG),
    TREE.bug("index_no_validation", "scenarios::split_and_reader", CI),
    TREE.bug("index_reader_does_not_move_right", "scenarios::split_and_reader", LONG),
    TREE.bug("index_writer_does_not_move_right", "scenarios::unlink_and_insert", LONG),
    TREE.bug("index_early_unlatch", "scenarios::split_and_reader", LONG),
    TREE.bug("index_root_order", "scenarios::new_root_and_descent", LONG),
    TREE.bug("index_reclaim_at_once", "scenarios::scan_and_updates", LONG),
    TREE.bug("index_child_not_tied", "insert_and_reused_leaf", LONG),
    TREE.bug("index_scan_not_validated", "scan_of_known_length", LONG),
    TREE.bug("index_aim_of_another_version", "batch_of_lookups_and_updates", LONG),
    MAPS.bug("index_separator_rounded", "model::numbers_agree", LONG),
    INDEX.bug(
        "index_rough_head_believed",
        "node::heads::tests::the_rank_of_a_cell_from_where_rough_heads_lead",
        LONG,
    ),
    CSB.bug("csb_shift_without_version", "shift_and_readers", LONG),
    CSB.bug("csb_group_split_wrong_order", "group_split_and_readers", LONG),
    CSB.bug("csb_compaction_skipped", "compaction_and_readers", LONG),
    RWX.bug("rwx_xlock_does_not_wait", "readers_and_an_xlock_exclude_each_other", LONG),
    RWX.bug("rwx_release_order", "writers_exclude_each_other", LONG),
    O2.bug("o2_uncoupled_reader", "o2_scenarios::rotations_and_readers", LONG),
    O2_OPTIMISTIC.bug("o2_bounds_not_checked", "scenarios::split_and_reader", LONG),
    LAYERS.bug("layer_closed_not_asked", "layer_scenarios::closing_and_inserts", LONG),
    LAYERS.bug("layer_closed_with_keys", "layer_scenarios::closing_and_inserts", LONG),
    ENGINE.bug("leaf_tie_ignores_length", "leaf::tests::model::heads_that_tie_are_told_apart", LONG),
    ENGINE.bug("leaf_split_loses_separator_key", "leaf::tests::model::underfull_leaves_merge", LONG),
    ENGINE.bug("leaf_redo_twice", "leaf::tests::redo::replay_equals_the_original", LONG),
    ENGINE.bug("log_ack_before_sync", "log::tests::crash::power_loss_at_every_event", LONG),
    CRASHES.bug("log_ack_before_sync", "every_crash_point_recovers", CI),
    ENGINE.bug("log_release_cut_record", "log::tests::crash::crash_at_every_event_of_large_work", LONG),
    ENGINE.bug("log_same_salt", "log::tests::crash::an_append_after_a_torn_tail_resurrects_nothing", LONG),
    ENGINE.bug("log_name_not_synced", "log::tests::crash::power_loss_in_the_life_after_a_kill", LONG),
    ENGINE.bug("page_before_log", "pool::tests::every_crash_keeps_what_was_claimed", LONG),
    ENGINE.bug("slot_reused_early", "pool::tests::every_crash_keeps_what_was_claimed", LONG),
    CRASHES.bug("slot_reused_early", "every_crash_point_recovers", CI),
    ENGINE.bug("leaf_growth_not_durable", "pool::tests::every_crash_keeps_what_was_claimed", LONG),
    ENGINE.bug("evicted_frame_keeps_id", "pool::tests::an_evicted_frame_holds_no_page", LONG),
    ENGINE.bug(
        "directory_open_not_synced",
        "pool::directory::tests::acknowledged_batches_survive_every_crash",
        LONG,
    ),
    REDO.bug("redo_before_durable", "no_page_gets_to_disk_before_its_record", LONG),
    ENGINE.bug("log_ring_not_zeroed", "log::tests::crash::a_reserved_place_is_incomplete_until_filled", LONG),
    TPCC.bug("tpcc_payment_forgets_district", "every_mix_keeps_the_conditions", LONG),
    TPCC.bug("tpcc_delivery_forgets_balance", "every_mix_keeps_the_conditions", LONG),
    TPCC.bug("tpcc_new_order_forgets_stock", "every_mix_keeps_the_conditions", LONG),
    DEMO.bug("demo_acknowledges_too_much", "nothing_is_lost_by_a_kill", LONG),
    TPCC.bug("reference_rollback_forgets_first_change", "transactions_begin_afresh_after_a_conflict", LONG),
    ENGINE.bug(
        "lock_upgrade_ignores_readers",
        "lock::tests::rules::an_upgrade_waits_for_other_readers",
        LONG,
    ),
    ENGINE.bug(
        "lock_late_reader_overtakes",
        "lock::tests::rules::late_readers_pass_a_writer_who_sleeps_but_not_for_ever",
        LONG,
    ),
    ENGINE.bug(
        "lock_gap_ignored_by_inserter",
        "lock::tests::rules::an_inserter_waits_for_every_scanner",
        LONG,
    ),
    ENGINE.bug("lock_leaver_wakes_nobody", "lock::tests::rules::who_gives_up_lets_others_pass", LONG),
    ENGINE.bug(
        "image_of_colliding_key",
        "lock::tests::images::keys_of_one_name_keep_their_images_apart",
        LONG,
    ),
    HISTORIES.bug("txn_gap_ignored", "serializable_histories_have_a_serial_order", CI),
    GAPS.bug("txn_span_ignored", "insertions_wait_for_readers_of_a_run_of_ghosts", LONG),
    HISTORIES.bug("txn_void_not_cut", "serializable_histories_have_a_serial_order", LONG),
    ENGINE.bug("txn_leap_not_validated", "txn::scan::tests::a_leap_counts_if_the_void_is_still_there", LONG),
    ENGINE.bug("txn_load_unnoticed", "txn::scan::tests::what_is_loaded_behind_a_walk_is_in_no_void", LONG),
    GAPS.bug("txn_own_gap_not_kept", "a_range_stays_closed_around_its_readers_own_rows", LONG),
    HISTORIES.bug("txn_scan_locks_too_little", "serializable_histories_have_a_serial_order", LONG),
    HISTORIES.bug("txn_scan_not_validated", "serializable_histories_have_a_serial_order", LONG),
    HISTORIES.bug("txn_snapshot_point_first", "serializable_histories_have_a_serial_order", LONG),
    ENGINE.bug("txn_horizon_unbounded", "txn::snapshots::tests::no_horizon_lies_beyond_the_log", LONG),
    HISTORIES.bug("txn_locks_released_early", "serializable_histories_have_a_serial_order", LONG),
    HISTORIES.bug("write_ignores_locks", "serializable_histories_have_a_serial_order", LONG),
    HISTORIES.bug("txn_image_dropped_early", "serializable_histories_have_a_serial_order", LONG),
    HISTORY_CRASHES.bug("txn_reader_acknowledged_early", "a_reader_waits_for_what_it_read", LONG),
    MANY_ROWS.bug("txn_rows_undone_in_part", "many_rows_are_written_at_once", LONG),
    SNAPSHOTS.bug("txn_needed_ghost_purged", "ghosts_that_are_needed_stay_in_full_leaves", LONG),
    HISTORY_CRASHES.bug("txn_prepared_unlocked", "prepared_transactions_keep_their_locks", LONG),
    ENGINE.bug("spill_overlooked", "txn::spill::tests::everybody_sees_what_he_should", LONG),
    ENGINE.bug("spill_freed_early", "txn::spill::tests::everybody_sees_what_he_should", LONG),
    ENGINE.bug("spill_ghost_purged", "txn::spill::tests::everybody_sees_what_he_should", LONG),
    ENGINE.bug("claim_overlooked", "txn::claims::tests::others_wait_for_who_claims_a_row", LONG),
    ENGINE.bug("claim_given_back_early", "txn::claims::tests::no_update_is_lost", LONG),
    ENGINE.bug("claim_undone_unlocked", "txn::claims::tests::what_is_undone_stays_locked", LONG),
    ENGINE.bug("claim_ghost_purged", "txn::claims::tests::what_is_claimed_is_not_cleared_up", LONG),
    ENGINE.bug("range_overlooked", "tree::ranges::tests::scans_take_few_locks", LONG),
    ENGINE.bug("spill_not_validated", "txn::spill::tests::who_comes_by_a_way_that_is_gone_looks_again", LONG),
    LARGE.bug("blob_lives_before_commit", "a_crash_anywhere_leaves_one_value_and_nothing_else", CI),
    LARGE.bug("blob_replaced_unmarked", "behaves_like_a_map", LONG),
    LARGE.bug("blob_reaped_early", "snapshots_keep_what_they_see", LONG),
    LARGE.bug("blob_reaped_for_another", "a_mark_taken_back_is_not_the_next_one", LONG),
    EXTENTS.bug("blob_committed_before_sync", "every_crash_keeps_what_was_acknowledged", CI),
    EXTENTS.bug("blob_extent_reused_early", "what_a_power_failure_brings_back_is_whole", LONG),
    LEAF_SIZES.bug("leaf_file_name_not_durable", "every_crash_point_recovers", LONG),
    BACKUP.bug("backup_named_early", "a_crash_of_the_target_leaves_nothing_that_passes_for_complete", LONG),
    POWER.bug("serve_reply_before_sync", "no_power_failure_takes_what_was_acknowledged", LONG),
    SERVED.bug("serve_watch_forgets", "watch_sees_what_was_read_in_between", LONG),
];

/// In every CI run, or only with `cargo xtask seeded`.
const CI: bool = true;
const LONG: bool = false;

/// Tests of one build.
struct Build {
    checker: &'static str,
    test_args: &'static str,
}

const IO: Build = Build { checker: "", test_args: "-p foreshore-io --test contract" };
const IO_PROCESS: Build = Build { checker: "", test_args: "-p foreshore-io --test process" };
const IO_MODEL: Build = Build { checker: "", test_args: "-p foreshore-io --test model" };
const IO_FAULTS: Build = Build { checker: "", test_args: "-p foreshore-io --test sim_faults" };
const STANDING: Build =
    Build { checker: "loom", test_args: "--release -p foreshore-base --test loom_standing" };
const SHOWN: Build = Build { checker: "loom", test_args: "--release -p foreshore-base --test loom_shown" };
const GATE: Build = Build { checker: "loom", test_args: "--release -p foreshore-base --test loom_gate" };
const RING: Build = Build { checker: "loom", test_args: "--release -p foreshore-base --test loom_log_ring" };
const LATCH: Build = Build { checker: "loom", test_args: "--release -p foreshore-base --test loom_latch" };
const INDEX: Build = Build { checker: "", test_args: "-p foreshore-index --lib" };
const MAPS: Build = Build { checker: "", test_args: "-p foreshore-index --test maps" };
const TREE: Build =
    Build { checker: "shuttle", test_args: "--release -p foreshore-index --test shuttle_tree" };
const CSB: Build = Build { checker: "shuttle", test_args: "--release -p foreshore-index --test shuttle_csb" };
const RWX: Build = Build { checker: "loom", test_args: "--release -p foreshore-base --test loom_rwx" };
const O2: Build = Build { checker: "shuttle", test_args: "--release -p foreshore-index --test shuttle_o2" };
const O2_OPTIMISTIC: Build =
    Build { checker: "shuttle", test_args: "--release -p foreshore-index --test shuttle_o2_optimistic" };
const LAYERS: Build =
    Build { checker: "shuttle", test_args: "--release -p foreshore-index --test shuttle_layers_o2" };
const ENGINE: Build = Build { checker: "", test_args: "-p foreshore --lib" };
const CRASHES: Build = Build { checker: "", test_args: "-p foreshore --test crash" };
const REDO: Build = Build { checker: "", test_args: "-p foreshore --test crash_redo" };
const DEMO: Build = Build { checker: "", test_args: "-p foreshore-cli --test demo" };
const MANY_ROWS: Build = Build { checker: "", test_args: "-p foreshore --test many_rows" };
const SNAPSHOTS: Build = Build { checker: "", test_args: "-p foreshore --test snapshots" };
const GAPS: Build = Build { checker: "", test_args: "-p foreshore --test gaps" };
const HISTORIES: Build = Build { checker: "", test_args: "-p foreshore --test serializable" };
const HISTORY_CRASHES: Build = Build { checker: "", test_args: "-p foreshore --test serializable_crash" };
const LARGE: Build = Build { checker: "", test_args: "-p foreshore --test large" };
const EXTENTS: Build = Build { checker: "", test_args: "-p foreshore --test extents" };
const LEAF_SIZES: Build = Build { checker: "", test_args: "-p foreshore --test leaf_sizes" };
const BACKUP: Build = Build { checker: "", test_args: "-p foreshore --test backup" };
const POWER: Build = Build { checker: "", test_args: "-p foreshore-server --test power" };
const SERVED: Build = Build { checker: "", test_args: "-p foreshore-server --test transactions" };
const TPCC: Build = Build { checker: "", test_args: "-p foreshore-workloads --test tpcc" };

impl Build {
    const fn bug(&self, name: &'static str, test: &'static str, in_ci: bool) -> Bug {
        Bug { name, checker: self.checker, test_args: self.test_args, test, in_ci }
    }
}

impl Bug {
    fn step(&self) -> io::Result<Step> {
        let Self { name, checker, test_args, test, .. } = self;
        let mut args = "test".to_owned();
        if !checker.is_empty() {
            args += &format!(" --target-dir target/{checker}");
        }
        args += &format!(" {test_args} -- --exact {test}");
        let cargo = match *checker {
            "" => Cargo::new(&args).instrumented()?,
            _ => checked(Cargo::new(&args), checker),
        };
        // What they find is no regression to keep.
        let cargo = cargo.env("FORESHORE_BUG", *name).env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
        Ok(Step::new(format!("seeded {name}"), Work::Catches { cargo, test, within: CAUGHT_WITHIN }))
    }
}

/// The command with a model checker's build: with bugs that can be switched on, so that no other build is needed for them.
pub fn checked(cargo: Cargo, checker: &str) -> Cargo {
    // So little optimised it is built sooner, and runs as fast: it does nothing but give way from one thread to another.
    cargo
        .env("RUSTFLAGS", format!("--cfg {checker} --cfg seeded_bugs"))
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .quick_release()
}

/// The steps that CI runs.
pub fn ci_steps() -> io::Result<Vec<Step>> {
    BUGS.iter().filter(|bug| bug.in_ci).map(Bug::step).collect()
}

/// `cargo xtask seeded`: the named bugs, or all.
pub fn run(names: &[String]) -> io::Result<bool> {
    let mut bugs: Vec<_> = BUGS.iter().collect();
    choose(&mut bugs, names, "seeded bug", |bug| bug.name, |name, wanted| name == wanted)?;
    run_all(&bugs.into_iter().map(Bug::step).collect::<io::Result<Vec<_>>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources;
    use std::collections::BTreeSet;

    /// The sources of the crates, tests included.
    fn crates() -> Vec<sources::Source> {
        std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .expect("the workspace is above xtask");
        let mut sources = sources::all().unwrap();
        sources.retain(|source| source.name.starts_with("crates/"));
        sources
    }

    #[test]
    fn every_bug_in_the_code_has_its_test_and_the_other_way_round() {
        let asked = |text: &str| -> Vec<String> {
            let calls = text.split("seeded_bug(\"").skip(1);
            calls.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name.to_owned()).collect()
        };
        let in_code: BTreeSet<String> = crates().iter().flat_map(|source| asked(&source.text)).collect();
        let in_table: BTreeSet<String> = BUGS.iter().map(|bug| bug.name.to_owned()).collect();
        assert_eq!(in_code, in_table);
    }

    #[test]
    fn every_test_in_the_table_is_there() {
        let crates = crates();
        for Bug { name, test, .. } in BUGS {
            let function = test.rsplit("::").next().expect("a name has a last part");
            let is_there = crates.iter().any(|source| source.text.contains(&format!("fn {function}(")));
            assert!(is_there, "{name} is to be caught by {test}, which is not there");
        }
    }
}
