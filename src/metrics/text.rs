//! Prometheus's text format, for metrics that are read at the scrape: those of queues and of the
//! process. A number that could not be read is absent, instead of that of an earlier scrape.

use std::fmt::{Display, Write};

use metrics_exporter_prometheus::formatting::{write_help_line, write_type_line};

use super::list::Spec;

/// The lines before the series of a metric.
pub fn head(spec: &Spec, out: &mut String) {
    write_help_line(out, spec.name, None, None, spec.help);
    write_type_line(out, spec.name, None, None, &format!("{:?}", spec.kind).to_lowercase());
}

/// One series; `suffix` as histograms have them.
pub fn series(
    spec: &Spec,
    suffix: &str,
    labels: &[(&str, &str)],
    number: impl Display,
    out: &mut String,
) {
    out.push_str(spec.name);
    out.push_str(suffix);
    for (place, (label, value)) in labels.iter().enumerate() {
        out.push(if place == 0 { '{' } else { ',' });
        // Writing to a string cannot fail; line feeds never come here.
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = write!(out, "{label}=\"{value}\"");
    }
    out.push_str(if labels.is_empty() { " " } else { "} " });
    let _ = writeln!(out, "{number}");
}
