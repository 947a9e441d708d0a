//! The report's page: what stands in it. Plain HTML, charts inline, no script.

use crate::frame::report::HostRecords;
use crate::frame::results::Record;
use std::fmt::Write as _;

const STYLE: &str = "\
body{font:17px/1.5 system-ui,sans-serif;margin:0 auto;max-width:46rem;padding:0 1rem 4rem;color:#1a1a1a;background:#fff}\
svg{width:100%;height:auto;display:block}h1,h2,h3{line-height:1.25}h2{border-top:2px solid #ccc;padding-top:1rem}\
.v{display:inline-block;padding:.05em .55em;border-radius:1em;font-size:.85em;color:#fff}\
.holds{background:#00734f}.part{background:#8a5a00}.differs{background:#a33}\
details{margin:.5rem 0 1.5rem}summary{cursor:pointer;color:#00598c}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.8rem}\
td,th{border:1px solid #ddd;padding:.15rem .45rem;text-align:left}td.n{text-align:right}\
code{font-size:.85em;overflow-wrap:anywhere}ul.toc{padding-left:1.1rem}";

const INTRODUCTION: &str = "\
Every figure here was drawn by running code, and each structure's answers were checked while it was timed. \
<b>Measured</b> numbers were timed or counted on the machine named. <b>Modelled</b> numbers come from the memory accesses \
of the same code, fed through a model of caches and of many processors that keep them coherent: read their order and shape, \
not their last digit. <b>Computed</b> numbers follow from a formula or a layout.";

/// The whole page.
pub fn page(hosts: &[HostRecords]) -> String {
    let mut html = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    html += "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n";
    html += &format!("<title>Foreshore's laboratory</title><style>{STYLE}</style></head><body>\n");
    html += &format!("<h1>Foreshore’s laboratory</h1>\n<p>{INTRODUCTION}</p>\n");
    if hosts.is_empty() {
        html += "<p>No figure has been drawn yet: <code>foreshore lab all --quick</code> draws them.</p>\n";
    }
    for host in hosts {
        contents(&mut html, host);
    }
    for host in hosts {
        add(&mut html, format_args!("<h2>{}</h2>\n", escaped(&host.name)));
        for record in &host.records {
            figure(&mut html, &host.name, record);
        }
    }
    html + "</body></html>\n"
}

fn add(html: &mut String, text: std::fmt::Arguments<'_>) {
    html.write_fmt(text).expect("strings take all");
}

fn contents(html: &mut String, host: &HostRecords) {
    add(html, format_args!("<p><b>{}</b></p>\n<ul class=\"toc\">\n", escaped(&host.name)));
    for record in &host.records {
        let id = anchor(&host.name, record);
        let title = escaped(record.get("title"));
        add(html, format_args!("<li><a href=\"#{id}\">{title}</a> {}</li>\n", badge(record)));
    }
    *html += "</ul>\n";
}

fn figure(html: &mut String, host: &str, record: &Record) {
    let get = |name: &str| escaped(record.get(name));
    add(html, format_args!("<h3 id=\"{}\">{}</h3>\n", anchor(host, record), get("title")));
    add(html, format_args!("<p><small>{} · {}</small></p>\n", get("figure"), get("paper")));
    add(html, format_args!("<p>The paper: {}</p>\n", get("found")));
    add(html, format_args!("<p>Here: {} {}</p>\n", badge(record), get("seen")));
    if !record.get("differs").is_empty() {
        add(html, format_args!("<p>What differs: {}</p>\n", get("differs")));
    }
    *html += &record.svg;
    numbers(html, record);
}

fn numbers(html: &mut String, record: &Record) {
    *html += "<details><summary>Numbers, and how to draw this again</summary>\n<div class=\"wide\"><table>\n";
    for (name, value) in
        record.header().iter().filter(|(name, _)| !["found", "differs", "seen"].contains(&name.as_str()))
    {
        add(
            html,
            format_args!("<tr><th>{}</th><td><code>{}</code></td></tr>\n", escaped(name), escaped(value)),
        );
    }
    *html += "</table><table>\n<tr><th>panel</th><th>series</th><th>x</th><th>y</th></tr>\n";
    for [panel, source, _, y_name, series, x, y] in &record.rows {
        let [panel, source, y_name, series] = [panel, source, y_name, series].map(|cell| escaped(cell));
        add(
            html,
            format_args!(
                "<tr><td>{panel} ({source}; {y_name})</td><td>{series}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
                escaped(x),
                escaped(y)
            ),
        );
    }
    *html += "</table></div></details>\n";
}

fn badge(record: &Record) -> String {
    let word = record.get("verdict");
    let class = match word {
        "holds" => "holds",
        "holds in part" => "part",
        _ => "differs",
    };
    format!("<span class=\"v {class}\">{}</span>", escaped(word))
}

fn anchor(host: &str, record: &Record) -> String {
    escaped(&format!("{host}-{}", record.get("figure")))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
