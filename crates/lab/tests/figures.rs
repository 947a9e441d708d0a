//! A figure from end to end: drawn, kept, read back, shown; and what every figure owes its reader.

use foreshore_lab::counters::{Counters, Event};
use foreshore_lab::figures;
use foreshore_lab::frame::results::Record;
use foreshore_lab::frame::{Drawn, Host, LabError, Settings, report, results, text_table};
use foreshore_lab::peers::Programs;
use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;

#[test]
fn every_figure_says_what_it_is() {
    let mut names = HashSet::new();
    for figure in figures::all() {
        assert!(names.insert(figure.name), "{} twice", figure.name);
        for text in [figure.name, figure.title, figure.found] {
            assert!(!text.is_empty() && !text.contains('\n'), "{}: {text:?}", figure.name);
        }
        assert!(std::ptr::eq(figures::named(figure.name).unwrap(), figure));
    }
    assert!(matches!(figures::named("olfit-fig99"), Err(LabError::Unknown { .. })));
}

#[test]
fn a_figure_is_drawn_kept_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let (host, settings) = (Host::here(), Settings::quick(1));
    let mut order = Vec::new();
    for name in ["olfit-fig2", "multicore-fig2", "olfit-table1"] {
        let figure = figures::named(name).unwrap();
        let mut told = 0;
        let drawn = figure.run(&settings, &mut |share, _| {
            assert!((0.0..=1.0).contains(&share), "{name}: {share}");
            told += 1;
        });
        let drawn = drawn.unwrap();
        assert!(told > 0 || name == "olfit-table1");
        let csv = results::keep(dir.path(), &host, figure, &settings, &drawn).unwrap();

        let record = Record::read(&csv).unwrap();
        assert_eq!(record.get("figure"), name);
        assert_eq!(record.get("seen"), drawn.verdict.sentence());
        assert_eq!(record.get("command"), settings.command(name));
        let points: usize = drawn.panels.iter().flat_map(|panel| &panel.series).map(|s| s.points.len()).sum();
        assert_eq!(record.rows.len(), points);
        assert!(record.svg.starts_with("<svg") && record.svg.contains("viewBox"));
        assert!(text_table(&drawn).contains(drawn.verdict.sentence()));
        order.push(name);
    }
    let page = std::fs::read_to_string(report::build(dir.path(), &order).unwrap()).unwrap();
    let places: Vec<_> = order.iter().map(|name| page.find(&format!("<small>{name}")).unwrap()).collect();
    assert!(places.is_sorted(), "figures stand in the order asked for");
    assert_eq!(page.matches("<svg").count(), order.len());
    assert!(!page.contains("http-equiv") && !page.contains("<script") && !page.contains("src="));
}

/// A program that stands for an engine: with old primitives it is slower, and more so with threads; of the peers it knows
/// three: one does not scale, one refuses a second thread, and one crashes unless it does payments. Who inserts hands over
/// each row by itself, as the paper does.
const ENGINE: &str = r#"#!/bin/sh
case $* in
    *" --rows-per-call 1 "* | *" --rows-per-commit 1 "*) ;;
    *" insert "*) echo "many rows in a call" >&2; exit 5 ;;
esac
threads=1 peer= mix=
while [ $# -gt 0 ]; do
    case $1 in --threads) threads=$2 ;; --engine) peer=$2 ;; --mix) mix=$2 ;; esac
    shift
done
case $peer in
    "") rate=$((1000000 * threads / (10 + ${#FORESHORE_OLD} * threads))) ;;
    lmdb) rate=50000 ;;
    kyoto) [ $threads = 1 ] || { echo "one thread only" >&2; exit 2; }; rate=60000 ;;
    leveldb) [ "$mix" = payment ] || kill -SEGV $$; rate=40000 ;;
    *) echo "no engine is called $peer" >&2; exit 2 ;;
esac
echo "{\"ops_per_s\": $rate${peer:+, \"version\": \"1.2\"}}"
"#;

/// A peer that crashed is told as missing; also if that was in the first of two panels.
fn says_what_failed(drawn: &Drawn) {
    let sentence = drawn.verdict.sentence();
    assert!(sentence.contains("SIGSEGV"), "{sentence}");
    let failed = &drawn.settings.iter().find(|(key, _)| *key == "failed").expect("it is there").1;
    assert!(failed.to_lowercase().starts_with("leveldb: signal: 11"), "{failed}");
}

#[test]
fn engines_are_measured_as_children() {
    let dir = tempfile::tempdir().unwrap();
    let engine = dir.path().join("engine");
    std::fs::write(&engine, ENGINE).unwrap();
    std::fs::set_permissions(&engine, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (foreshore, stages, peers) = (engine.clone(), engine.clone(), engine);
    // Rounds count on from the seed: there is none above this one.
    let mut settings = Settings { threads_max: 2, ..Settings::quick(u64::MAX) };
    settings.programs =
        Programs { foreshore, stages, peers, scratch: dir.path().to_owned(), ..Programs::default() };
    for name in
        ["shoremt-fig1", "shoremt-fig4", "shoremt-fig5", "shoremt-fig6", "shoremt-fig7", "shoremt-scaling"]
    {
        let drawn = figures::named(name).unwrap().run(&settings, &mut |_, _| {}).unwrap();
        // This engine makes little difference between latches. In the model one stage brings nearly all of the gain, whatever
        // engines do.
        let in_part = ["shoremt-fig6", "shoremt-fig7"].contains(&name);
        let expected = if in_part { "holds in part" } else { "holds" };
        assert_eq!(drawn.verdict.word(), expected, "{name}: {}", drawn.verdict.sentence());
        if ["shoremt-fig1", "shoremt-fig4", "shoremt-fig5"].contains(&name) {
            says_what_failed(&drawn);
        }
    }
    let drawn = figures::named("shoremt-fig4").unwrap().run(&settings, &mut |_, _| {}).unwrap();
    let panel = &drawn.panels[0];
    assert_eq!(panel.series.len(), 2, "who refuses is left out");
    assert_eq!((panel.at("Foreshore", 2.0), panel.at("lmdb", 2.0)), (100.0, 25.0));
    let header = results::csv(&Host::here(), figures::named("shoremt-fig4").unwrap(), &settings, &drawn);
    assert!(header.contains("berkeleydb: no engine is called berkeleydb"), "{header}");
    assert!(header.contains("kyoto: one thread only"), "{header}");
    assert!(header.contains("# versions: lmdb 1.2; kyoto 1.2\n"), "{header}");
    assert!(header.contains("# filesystem: ") && !header.contains("# filesystem: \n"), "{header}");

    // Also where it has run before it refused.
    let drawn = figures::named("o2-fig4").unwrap().run(&settings, &mut |_, _| {}).unwrap();
    assert!(drawn.settings.contains(&("versions", "Kyoto TreeDB 1.2; LMDB 1.2".to_owned())));
    let measured: Vec<_> = drawn.panels[0].series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(measured, ["Foreshore, O2 index", "Foreshore", "LMDB"], "who refuses is left out");
    says_what_failed(&drawn);

    // Without peers the figure says what builds them; without the engine there is no figure.
    settings.programs.peers = "no/such".into();
    let drawn = figures::named("shoremt-fig1").unwrap().run(&settings, &mut |_, _| {}).unwrap();
    assert!(!drawn.verdict.holds() && drawn.verdict.sentence().contains("peers/Cargo.toml"));
    settings.programs.stages = "no/such".into();
    let absent = figures::named("shoremt-fig7").unwrap().run(&settings, &mut |_, _| {});
    assert!(matches!(absent, Err(LabError::Absent { .. })));
}

/// A figure that shows misses says what this machine counts, and draws it where it does.
#[test]
fn what_the_machine_counts_stands_beside_the_model() {
    let mut counters = Counters::of_this_thread();
    let ((), counted) = counters.around(|| ());
    for name in ["multicore-fig8", "damon-fig4"] {
        let drawn = figures::named(name).unwrap().run(&Settings::quick(1), &mut |_, _| {}).unwrap();
        let said = drawn.settings.iter().find(|(key, _)| *key == "counters").expect(name);
        assert_eq!(said.1, counters.summary(), "{name}");
        let panel =
            drawn.panels.iter().any(|panel| panel.title.starts_with("Cycles and instructions, counted"));
        assert_eq!(panel, counted.get(Event::Cycles).is_some(), "{name}");
    }
}

/// What the model counts depends on the seed alone.
#[test]
fn modelled_numbers_repeat() {
    let figure = figures::named("multicore-fig2").unwrap();
    let modelled = || {
        let drawn = figure.run(&Settings::quick(3), &mut |_, _| {}).unwrap();
        drawn.panels.into_iter().next().unwrap()
    };
    assert_eq!(modelled(), modelled());
}

/// A file that is not a figure's record is named, not guessed at.
#[test]
fn foreign_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let host = dir.path().join("host");
    std::fs::create_dir(&host).unwrap();
    std::fs::write(host.join("other.csv"), "a,b\n1,2\n").unwrap();
    // Results of other programs have no chart beside them and are passed over.
    assert!(matches!(report::build(dir.path(), &[]), Err(LabError::Undrawn { .. })));
    std::fs::write(host.join("other.svg"), "<svg/>").unwrap();
    assert!(matches!(report::build(dir.path(), &[]), Err(LabError::Foreign { .. })));
}

/// What was cut, wherever that was, is not taken for a record: numbers would be missing.
#[test]
fn the_beginning_of_a_record_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (figure, settings) = (figures::named("olfit-table1").unwrap(), Settings::quick(1));
    let drawn = figure.run(&settings, &mut |_, _| {}).unwrap();
    let path = results::keep(dir.path(), &Host::here(), figure, &settings, &drawn).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(Record::read(&path).is_ok());
    for (end, _) in text.match_indices('\n') {
        // Within a line, before its end, and behind it.
        for cut in [end - 1, end, end + 1].into_iter().filter(|cut| *cut < text.len()) {
            std::fs::write(&path, &text.as_bytes()[..cut]).unwrap();
            let read = Record::read(&path);
            assert!(matches!(read, Err(LabError::Foreign { .. })), "{cut} of {} bytes", text.len());
        }
    }
    // One from before points were counted.
    let lines = text.lines().filter(|line| !line.starts_with("# points: "));
    std::fs::write(&path, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    assert!(Record::read(&path).is_ok());
}
