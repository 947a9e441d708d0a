//! Why an event is not counted, and what can be done about it.

use crate::counters::Event;

/// Why an event cannot be counted here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// Neither processor nor system has such an event.
    Unknown,
    /// The system does not let this program count it. Its `kernel.perf_event_paranoid`, if that could be read.
    Forbidden(Option<i32>),
    /// Something else, in the system's words.
    Failed(String),
}

impl Absence {
    /// The reason, and the next step, for `event`.
    pub fn why(&self, event: Event) -> String {
        let allowed = if event.is_in_kernel() { 1 } else { 2 };
        match self {
            Self::Unknown if event.is_processors() => "this processor does not show it".into(),
            Self::Unknown => "this system does not count it".into(),
            Self::Forbidden(Some(level)) if *level > allowed => format!(
                "kernel.perf_event_paranoid is {level}; `sudo sysctl kernel.perf_event_paranoid={allowed}` allows it"
            ),
            Self::Forbidden(_) => {
                "perf_event_open is forbidden, by a container's rules perhaps; allow it there".into()
            }
            Self::Failed(what) => what.clone(),
        }
    }
}

/// Why the processor counts nothing at all: all its events are absent.
fn why_none(absent: &[(Event, Absence)]) -> String {
    let (event, first) = &absent[0];
    if absent.iter().all(|(_, absence)| *absence == Absence::Unknown) {
        return "this machine shows no counters of its processor, as most virtual machines do not; run on the \
                machine itself, or let its host pass them on (a virtual PMU)"
            .into();
    }
    first.why(*event)
}

/// A sentence or two: what is counted here, what is not, and why.
pub(super) fn summary(counted: &[Event], absent: &[(Event, Absence)]) -> String {
    let names = counted.iter().map(|event| event.name()).collect::<Vec<_>>();
    let here = if names.is_empty() { "nothing".into() } else { names.join(", ") };
    let (processors, systems): (Vec<_>, Vec<_>) =
        absent.iter().cloned().partition(|(event, _)| event.is_processors());
    if processors.len() == Event::PROCESSOR.len() {
        let why = why_none(&processors);
        return format!("No hardware counters: {why}. Counted: {here}.{}", not_counted(&systems));
    }
    format!("Counted: {here}.{}", not_counted(absent))
}

/// The events one by one, with their reasons; nothing if there are none.
fn not_counted(absent: &[(Event, Absence)]) -> String {
    if absent.is_empty() {
        return String::new();
    }
    let each = absent.iter().map(|(event, absence)| format!("{} ({})", event.name(), absence.why(*event)));
    format!(" Not counted: {}.", each.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_processor(absence: &Absence) -> String {
        summary(&Event::SYSTEM, &Event::PROCESSOR.map(|event| (event, absence.clone())))
    }

    #[test]
    fn a_virtual_machine_is_told_what_it_lacks() {
        let text = without_processor(&Absence::Unknown);
        assert!(text.starts_with("No hardware counters: this machine shows no counters"), "{text}");
        assert!(text.ends_with("Counted: task clock, ns, page faults, context switches."), "{text}");
    }

    #[test]
    fn who_is_forbidden_to_count_is_told_what_to_set() {
        let text = without_processor(&Absence::Forbidden(Some(4)));
        assert!(text.contains("is 4; `sudo sysctl kernel.perf_event_paranoid=2`"), "{text}");
        // What happens in the kernel needs more than what happens in the program.
        let why = Absence::Forbidden(Some(2)).why(Event::ContextSwitches);
        assert!(why.contains("perf_event_paranoid=1"), "{why}");
        // The level allows it, so something else forbids it.
        let text = without_processor(&Absence::Forbidden(Some(2)));
        assert!(text.contains("container"), "{text}");
    }

    #[test]
    fn single_events_are_named_with_their_reasons() {
        let absent =
            [(Event::StalledBack, Absence::Unknown), (Event::TlbMisses, Absence::Failed("busy".into()))];
        assert_eq!(
            summary(&[Event::Cycles], &absent),
            "Counted: cycles. Not counted: stalled cycles, back end (this processor does not show it); TLB misses (busy)."
        );
        assert_eq!(summary(&[Event::Cycles], &[]), "Counted: cycles.");
    }

    /// An unprivileged program on a virtual machine.
    #[test]
    fn no_hardware_does_not_hide_what_else_is_missing() {
        let mut absent = Event::PROCESSOR.map(|event| (event, Absence::Unknown)).to_vec();
        absent.push((Event::ContextSwitches, Absence::Forbidden(Some(2))));
        let text = summary(&[Event::TaskClock], &absent);
        assert!(
            text.starts_with("No hardware counters: ") && text.contains("Counted: task clock, ns."),
            "{text}"
        );
        assert!(text.contains("Not counted: context switches (kernel.perf_event_paranoid is 2;"), "{text}");
    }
}
