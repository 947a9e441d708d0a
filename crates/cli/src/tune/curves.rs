//! What `tune` prints: every figure, and what follows from them.

use crate::failure::Outcome;
use crate::output::{Output, grouped};
use foreshore_index::calibrate::experiment::Measured;
use foreshore_index::calibrate::{Favour, LeafMeasured, Profile, Search, SearchMeasured, Way};
use serde::Serialize;

/// Figures and choices as tables.
pub fn print(out: &mut Output, profile: &Profile) -> Outcome {
    maps(out, profile)?;
    searches(out, profile, "lookup ns", |m| m.lookup_ns)?;
    searches(out, profile, "insert ns", |m| m.insert_ns)?;
    leaves(out, profile)?;
    choices(out, profile)
}

/// Every figure as a JSON object that says what was measured.
pub fn objects(out: &mut Output, profile: &Profile) -> Outcome {
    #[derive(Serialize)]
    struct Figure<'m, M> {
        measured: &'static str,
        #[serde(flatten)]
        figures: &'m M,
    }
    for figures in &profile.measured {
        out.object(&Figure { measured: "map", figures })?;
    }
    for figures in profile.search.iter().flat_map(|search| &search.measured) {
        out.object(&Figure { measured: "search", figures })?;
    }
    for figures in profile.leaf.iter().flat_map(|leaf| &leaf.measured) {
        out.object(&Figure { measured: "leaf", figures })?;
    }
    Ok(())
}

/// Lookups as bars: the longer, the slower.
fn bar(ns: f64, slowest: f64) -> String {
    "█".repeat((ns / slowest * 20.0).round() as usize)
}

fn whole(ns: f64) -> String {
    format!("{ns:.0}")
}

/// The name of a variant, as users write it.
fn word(variant: impl std::fmt::Debug) -> String {
    format!("{variant:?}").to_lowercase()
}

fn maps(out: &mut Output, profile: &Profile) -> Outcome {
    let same_tree = |of: &Measured, m: &&Measured| m.key_bytes == of.key_bytes && m.entries == of.entries;
    let row = |m: &Measured| {
        let tree = profile.measured.iter().filter(|other| same_tree(m, other));
        [
            m.key_bytes.to_string(),
            grouped(m.entries),
            m.node_keys.get().to_string(),
            whole(m.insert_ns),
            whole(m.multi_get_ns),
            whole(m.scan_ns),
            whole(m.lookup_ns),
            bar(m.lookup_ns, tree.map(|m| m.lookup_ns).fold(0.0, f64::max)),
        ]
    };
    out.line("maps, by node size")?;
    let header =
        ["key bytes", "entries", "node keys", "insert ns", "batched ns", "scan100 ns", "lookup ns", "lookup"];
    out.table(header, &profile.measured.iter().map(row).collect::<Vec<_>>())
}

/// A row for each node, a column for each method; the last two are the hybrid search without prefetch, and in small pages.
fn searches(
    out: &mut Output,
    profile: &Profile,
    figure: &str,
    ns: impl Fn(&SearchMeasured) -> f64,
) -> Outcome {
    let measured = || profile.search.iter().flat_map(|search| &search.measured);
    let row = |m: &SearchMeasured| {
        let maps = Way::of_maps(m.way.node_keys);
        let tree = || measured().filter(|other| other.key_bytes == m.key_bytes && other.entries == m.entries);
        let of = |way: Way| tree().find(|m| m.way == way).map_or("–".into(), |m| whole(ns(m)));
        let by = |search| of(Way { search, ..maps });
        [
            m.key_bytes.to_string(),
            grouped(m.entries),
            m.way.node_keys.get().to_string(),
            by(Search::Linear),
            by(Search::Binary),
            by(Search::Hybrid),
            by(Search::Simd),
            of(Way { prefetch: false, ..maps }),
            of(Way { huge_pages: false, ..maps }),
        ]
    };
    out.line(format_args!("\nsearches, by node size: {figure}"))?;
    let header = [
        "key bytes",
        "entries",
        "node keys",
        "linear",
        "binary",
        "hybrid",
        "simd",
        "hybrid, no prefetch",
        "hybrid, small pages",
    ];
    let nodes = measured().filter(|m| m.way == Way::of_maps(m.way.node_keys));
    out.table(header, &nodes.map(row).collect::<Vec<_>>())
}

fn leaves(out: &mut Output, profile: &Profile) -> Outcome {
    let measured: Vec<&LeafMeasured> = profile.leaf.iter().flat_map(|leaf| &leaf.measured).collect();
    let row = |m: &&LeafMeasured| {
        let slowest =
            measured.iter().filter(|other| other.rows == m.rows).map(|m| m.get_ns).fold(0.0, f64::max);
        [
            grouped(m.rows),
            format!("{} KiB", m.leaf_bytes >> 10),
            whole(m.put_ns),
            whole(m.scan_ns),
            whole(m.get_ns),
            bar(m.get_ns, slowest),
        ]
    };
    out.line("\nleaves of the engine, rows of 32 bytes in memory")?;
    out.table(
        ["rows", "leaf", "put ns", "scan100 ns", "get ns", "get"],
        &measured.iter().map(row).collect::<Vec<_>>(),
    )
}

/// What follows from the figures.
fn choices(out: &mut Output, profile: &Profile) -> Outcome {
    out.line("\nbest searches, beside the maps' own: hybrid, with prefetch, in huge pages")?;
    let best = profile.search.iter().flat_map(|search| &search.best);
    let rows = best.map(|best| {
        let way = best.way;
        [
            best.key_bytes.to_string(),
            word(best.favour),
            way.node_keys.get().to_string(),
            word(way.search),
            if way.prefetch { "yes" } else { "no" }.into(),
            if way.huge_pages { "huge" } else { "small" }.into(),
            format!("{:.2}", best.times_maps),
        ]
    });
    let header = ["key bytes", "favour", "node keys", "search", "prefetch", "pages", "times as fast"];
    out.table(header, &rows.collect::<Vec<_>>())?;

    out.line("\nchosen")?;
    let nodes = profile.choices.iter().map(|choice| {
        let of = format!("maps, keys of {} bytes", choice.key_bytes);
        [of, word(choice.favour), format!("{} keys in a node", choice.node_keys.get())]
    });
    let leaves = Favour::ALL.map(|favour| {
        ["tables".into(), word(favour), format!("leaves of {} KiB", profile.leaf_bytes(favour) >> 10)]
    });
    out.table(["for", "favour", "choice"], &nodes.chain(leaves).collect::<Vec<_>>())
}
