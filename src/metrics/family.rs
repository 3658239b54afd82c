//! The series of one metric that the exporter keeps, by the values of their labels.

use std::sync::{Arc, PoisonError, RwLock};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::list::{Kind, Spec};

/// Levels and targets are for recorders that filter; this one does not.
const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// A metric with `N` labels. Their values are words of the program, few enough to look through;
/// code that counts for each message keeps the series.
pub struct Family<S, const N: usize> {
    name: &'static str,
    labels: &'static [&'static str],
    recorder: Arc<PrometheusRecorder>,
    made: RwLock<Vec<([&'static str; N], S)>>,
}

impl<S: Series, const N: usize> Family<S, N> {
    /// Without labels it is shown from the start.
    pub(super) fn new(recorder: &Arc<PrometheusRecorder>, spec: &Spec) -> Self {
        let (name, unit, help) = (spec.name.into(), Some(spec.unit), spec.help.into());
        match spec.kind {
            Kind::Counter => recorder.describe_counter(name, unit, help),
            Kind::Gauge => recorder.describe_gauge(name, unit, help),
            Kind::Histogram => recorder.describe_histogram(name, unit, help),
        }
        let (name, labels, recorder) = (spec.name, spec.labels, recorder.clone());
        let family = Self { name, labels, recorder, made: RwLock::default() };
        if N == 0 {
            family.of([""; N]);
        }
        family
    }

    /// The series with these values of the labels; shown from now on.
    pub fn of(&self, values: [&'static str; N]) -> S {
        let found = |made: &[([&'static str; N], S)]| {
            made.iter().find(|(known, _)| *known == values).map(|(_, series)| series.clone())
        };
        let known = found(&self.made.read().unwrap_or_else(PoisonError::into_inner));
        known.unwrap_or_else(|| {
            let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
            found(&made).unwrap_or_else(|| {
                let labels = self.labels.iter().zip(values);
                let labels = labels.map(|(label, value)| Label::new(*label, value));
                let key = Key::from_parts(self.name, labels.collect::<Vec<_>>());
                let series = S::register(&self.recorder, &key);
                made.push((values, series.clone()));
                series
            })
        })
    }
}

/// Counter, gauge or histogram.
pub trait Series: Clone {
    fn register(recorder: &PrometheusRecorder, key: &Key) -> Self;
}

impl Series for Counter {
    fn register(recorder: &PrometheusRecorder, key: &Key) -> Self {
        recorder.register_counter(key, &METADATA)
    }
}

impl Series for Gauge {
    fn register(recorder: &PrometheusRecorder, key: &Key) -> Self {
        recorder.register_gauge(key, &METADATA)
    }
}

impl Series for Histogram {
    fn register(recorder: &PrometheusRecorder, key: &Key) -> Self {
        recorder.register_histogram(key, &METADATA)
    }
}
