//! The list of all metrics: a line each, from which the rest is made.
//!
//! A line has the name in the program, kind and unit, the name that users see, its labels and its
//! help. One that is `recorded` is a field of [`Recorded`], to be counted or set wherever it
//! happens; one that is `written` is read and written at each scrape (`queue.rs`, `process.rs`).

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Unit};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::family::Family;

/// One metric as users see it.
#[derive(Debug)]
pub struct Spec {
    pub name: &'static str,
    pub kind: Kind,
    pub unit: Unit,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

macro_rules! list {
    (@spec $kind:ident $unit:ident $name:literal [$($label:literal)*] $help:literal) => {
        Spec {
            name: $name,
            kind: Kind::$kind,
            unit: Unit::$unit,
            labels: &[$($label),*],
            help: $help,
        }
    };
    (
        recorded { $($id:ident: $kind:ident $unit:ident $name:literal [$($label:literal)*]
            $help:literal;)* }
        written { $($own:ident: $own_kind:ident $own_unit:ident $own_name:literal
            [$($own_label:literal)*] $own_help:literal;)* }
    ) => {
        /// The metrics that are counted or set where something happens.
        pub struct Recorded {
            $(pub $id: Family<$kind, { <[&str]>::len(&[$($label),*]) }>,)*
        }

        impl Recorded {
            pub(super) fn new(recorder: &Arc<PrometheusRecorder>) -> Self {
                Self { $($id: Family::new(
                    recorder,
                    &list!(@spec $kind $unit $name [$($label)*] $help),
                ),)* }
            }
        }

        $(pub(super) const $own: Spec =
            list!(@spec $own_kind $own_unit $own_name [$($own_label)*] $own_help);)*

        /// Every metric that `/metrics` can show.
        pub const TABLE: &[Spec] = &[
            $(list!(@spec $kind $unit $name [$($label)*] $help),)*
            $($own,)*
        ];
    };
}

list! {
    recorded {
        readiness: Gauge Count "delay_broker_ready" []
            "1 while commands can be served, as /readyz says, else 0.";
        paused_all: Gauge Count "delay_broker_paused_all" []
            "1 while all queues are paused by DQ.PAUSE ALL, else 0.";
        known_queues: Gauge Count "delay_broker_known_queues" []
            "Queues that this broker looks after.";
        offers_waiting: Gauge Count "delay_broker_offers_waiting" []
            "Offers that wait for the next call to Redis.";
        takers: Gauge Count "delay_broker_takers" []
            "Clients that wait for messages in DQ.TAKE.";
        batch_messages: Histogram Count "delay_broker_batch_messages" []
            "Messages stored by one call to Redis.";
        script_seconds: Histogram Seconds "delay_broker_script_seconds" ["script"]
            "Time from sending a script to Redis until its reply.";
        link_up: Gauge Count "delay_broker_redis_link_up" ["link"]
            "1 while this link to Redis is connected, else 0.";
        reconnects: Counter Count "delay_broker_redis_reconnects_total" ["link"]
            "Times that this link to Redis was connected again.";
        sync_rounds: Counter Count "delay_broker_sync_rounds_total" []
            "Rounds in which replicas or the disk were waited for; each serves all who wait.";
        unsynced: Counter Count "delay_broker_sync_unconfirmed_total" []
            "Calls with offers that replicas or the disk did not confirm in time.";
        failovers: Counter Count "delay_broker_redis_failovers_total" []
            "Times that the Sentinels named another master.";
        sentinels: Gauge Count "delay_broker_redis_sentinels" []
            "Sentinels that are asked for the master; 0 without a redis-sentinel:// URL.";
        sentinels_reachable: Gauge Count "delay_broker_redis_sentinels_reachable" []
            "Sentinels that answer.";
        audit_finding: Gauge Count "delay_broker_audit_finding" ["finding"]
            "1 for each finding of the last audit of Redis, 0 for each other one.";
        clients: Gauge Count "delay_broker_clients" []
            "Connected clients.";
        connections: Counter Count "delay_broker_connections_total" []
            "Connections of clients that were accepted.";
        refused: Counter Count "delay_broker_connections_refused_total" ["reason"]
            "Connections that were closed at once: too many in all, or from one address.";
        wrong_passwords: Counter Count "delay_broker_wrong_passwords_total" []
            "Times that a client gave a wrong password.";
        buffers: Gauge Bytes "delay_broker_buffers_bytes" []
            "Bytes in the buffers of all connections.";
        buffers_max: Gauge Bytes "delay_broker_buffers_max_bytes" []
            "Bytes that these buffers may hold: limits.buffers_bytes_max.";
        commands: Counter Count "delay_broker_commands_total" ["command" "outcome"]
            "Commands answered, by name and ok or the code of the error.";
        wakeups: Counter Count "delay_broker_wakeups_total" ["cause"]
            "Looks at queues, by their cause.";
        scans: Counter Count "delay_broker_scans_total" ["outcome"]
            "Calls of the safety scan, which reads the heads of many queues: ok, slow, or failed.";
        build: Gauge Count "delay_broker_build_info" ["version"]
            "Always 1; the version is its label.";
    }
    written {
        OFFERED: Counter Count "delay_broker_messages_offered_total" ["queue"]
            "Messages stored by this broker.";
        DELIVERED: Counter Count "delay_broker_messages_delivered_total" ["queue"]
            "Due messages that this broker moved to their list.";
        CANCELLED: Counter Count "delay_broker_messages_cancelled_total" ["queue"]
            "Messages taken out by DQ.CANCEL.";
        REMOVED: Counter Count "delay_broker_messages_removed_total" ["queue"]
            "Messages taken out by payload, by polling or by clearing.";
        QUARANTINED: Counter Count "delay_broker_messages_quarantined_total" ["queue"]
            "Members that could not be read and were put aside at their delivery.";
        TAKEN: Counter Count "delay_broker_messages_taken_total" ["queue"]
            "Messages handed out by DQ.TAKE, each time that they were.";
        ACKED: Counter Count "delay_broker_messages_acked_total" ["queue"]
            "Messages settled by DQ.ACK.";
        NACKED: Counter Count "delay_broker_messages_nacked_total" ["queue"]
            "Messages given back by DQ.NACK, or by the end of the connection they were tied to.";
        LAPSED: Counter Count "delay_broker_leases_lapsed_total" ["queue"]
            "Leases that ran out, counted at the next DQ.TAKE; of a stream, by its keeper.";
        DIED: Counter Count "delay_broker_messages_died_total" ["queue"]
            "Messages with no attempt left: they are in DQ.DEAD.";
        REQUEUED: Counter Count "delay_broker_messages_requeued_total" ["queue"]
            "Dead messages brought back by DQ.DEAD REQUEUE.";
        STALE: Counter Count "delay_broker_receipts_stale_total" ["queue"]
            "Receipts that settled nothing: used before, or the message was handed out again.";
        CRON_OFFERED: Counter Count "delay_broker_cron_offered_total" ["queue"]
            "Occurrences of schedules that this broker offered.";
        CRON_SKIPPED: Counter Count "delay_broker_cron_skipped_total" ["queue"]
            "Occurrences that were left out, since the one before was still pending.";
        CRON_MISSED: Counter Count "delay_broker_cron_missed_total" ["queue"]
            "Occurrences that nobody offered at their moment and that are passed over.";
        DEAD_DROPPED: Counter Count "delay_broker_messages_dead_dropped_total" ["queue"]
            "Dead messages dropped since dead_max or dead_keep_ms of the queue says so.";
        EXPIRED: Counter Count "delay_broker_messages_expired_total" ["queue"]
            "Messages whose TTL passed before a taker had them; those in DQ.DEAD died, too.";
        LATENESS: Histogram Seconds "delay_broker_lateness_seconds" ["queue"]
            "Redis's time at delivery minus the due time, of messages that this broker delivered.";
        PENDING: Gauge Count "delay_broker_queue_pending" ["queue"]
            "Messages that were offered and not delivered, read from Redis at the scrape.";
        READY: Gauge Count "delay_broker_queue_ready" ["queue"]
            "Delivered messages that no consumer has taken, read from Redis at the scrape.";
        OVERDUE: Gauge Seconds "delay_broker_queue_oldest_overdue_seconds" ["queue"]
            "How long the head of the queue has been due, 0 if it is not; of other the longest.";
        PAUSED: Gauge Count "delay_broker_queue_paused" ["queue"]
            "1 while the queue is paused, else 0; of other the number of them.";
        IN_QUARANTINE: Gauge Count "delay_broker_queue_quarantined" ["queue"]
            "Members that lie in quarantine, read from Redis at the scrape.";
        DUE_MINUTE: Gauge Count "delay_broker_queue_due_minute" ["queue"]
            "Pending messages that are due within a minute, or overdue.";
        DUE_HOUR: Gauge Count "delay_broker_queue_due_hour" ["queue"]
            "Pending messages that are due within an hour, or overdue.";
        LEASED: Gauge Count "delay_broker_queue_leased" ["queue"]
            "Messages that consumers have taken and not settled, read from Redis at the scrape.";
        WAITING: Gauge Count "delay_broker_queue_waiting" ["queue"]
            "Messages that wait for a retry, read from Redis at the scrape.";
        DEAD: Gauge Count "delay_broker_queue_dead" ["queue"]
            "Dead messages, read from Redis at the scrape.";
        AGAIN: Gauge Seconds "delay_broker_queue_retry_overdue_seconds" ["queue"]
            "How long a retry or an ended lease has waited for a DQ.TAKE; of other the longest.";
        GROUP_PENDING: Gauge Count "delay_broker_stream_group_pending" ["queue" "group"]
            "Entries that a group of a stream was given and has not acknowledged.";
        GROUP_LAG: Gauge Count "delay_broker_stream_group_lag" ["queue" "group"]
            "Entries that a group of a stream was not given yet; absent where Redis cannot tell.";
        MASTER: Gauge Count "delay_broker_redis_master_info" ["address"]
            "Always 1; its label is the master that the Sentinels named. Absent without Sentinels.";
        LOG_LOST: Counter Count "delay_broker_log_lines_lost_total" []
            "Log lines lost, since nobody read them in time or they could not be written.";
        PROCESS_CPU: Counter Seconds "process_cpu_seconds_total" []
            "Time of processors that this process has used.";
        PROCESS_MEMORY: Gauge Bytes "process_resident_memory_bytes" []
            "Memory of this process.";
        PROCESS_FDS: Gauge Count "process_open_fds" []
            "Open files and sockets.";
        PROCESS_FDS_MAX: Gauge Count "process_max_fds" []
            "Files and sockets that may be open.";
        PROCESS_START: Gauge Seconds "process_start_time_seconds" []
            "When this process started, Unix time.";
    }
}
