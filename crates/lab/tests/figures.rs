//! A figure from end to end: drawn, kept, read back, shown; and what every figure owes its reader.

use foreshore_lab::figures;
use foreshore_lab::frame::results::Record;
use foreshore_lab::frame::{Host, LabError, Settings, report, results, text_table};
use std::collections::HashSet;

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
    report::build(dir.path(), &[]).unwrap();
    std::fs::write(host.join("other.svg"), "<svg/>").unwrap();
    assert!(matches!(report::build(dir.path(), &[]), Err(LabError::Foreign { .. })));
}
