//! Brings the scheduled faults about, and heals each before the next of its list.

use std::time::{Duration, Instant};

use harness::{Connection, Database, Postgres, Shutdown};

use super::{
    broker::Place,
    clients::connect,
    relays::Relays,
    schedule::{DatabaseFault, Fault, RelayFault, Schedule},
};

/// What there is to break.
pub(super) struct Faults<'a> {
    pub(super) postgres: &'a Postgres,
    pub(super) place: &'a Place<'a>,
    pub(super) db: &'a Database,
    pub(super) relays: &'a Relays,
    pub(super) start: Instant,
}

impl Faults<'_> {
    /// All of them, the three lists beside each other. Everything is whole again at the end.
    pub(super) async fn run(&self, schedule: &Schedule) {
        tokio::join!(
            async {
                for fault in &schedule.relay_faults {
                    self.moment(fault).await;
                    self.relay(fault).await;
                }
            },
            async {
                for fault in &schedule.broker_faults {
                    self.moment(fault).await;
                    self.place.suffer(fault).await;
                }
            },
            async {
                for fault in &schedule.database_faults {
                    self.moment(fault).await;
                    self.database(fault).await;
                }
            },
        );
    }

    async fn moment<Kind>(&self, fault: &Fault<Kind>) {
        let moment = self.start + Duration::from_millis(fault.at.into());
        tokio::time::sleep_until(moment.into()).await;
    }

    async fn relay(&self, fault: &Fault<RelayFault>) {
        match fault.kind {
            RelayFault::Kill { seat } => {
                self.relays.kill(seat).await;
                fault.last().await;
                self.relays.want(seat).await;
            }
            RelayFault::Terminate { seat } => {
                self.relays.terminate(seat).await;
                fault.last().await;
                self.relays.want(seat).await;
            }
            RelayFault::Freeze { seat } => {
                self.relays.pause(seat).await;
                fault.last().await;
                self.relays.resume(seat).await;
            }
            RelayFault::DropSlot => {
                for seat in 0..self.relays.count() {
                    self.relays.kill(seat).await;
                }
                self.drop_slot(fault).await;
                for seat in 0..self.relays.count() {
                    self.relays.want(seat).await;
                }
            }
        }
    }

    /// The walsender of a killed relay, and a database that is away, may keep it for a moment.
    async fn drop_slot(&self, fault: &Fault<RelayFault>) {
        let name = self.db.name();
        let sql = format!(
            "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE slot_name = '{name}' AND active;
             SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{name}'"
        );
        while connect(self.db.url()).await.batch_execute(&sql).await.is_err() {}
        fault.last().await;
    }

    async fn database(&self, fault: &Fault<DatabaseFault>) {
        match fault.kind {
            DatabaseFault::Restart => {
                self.postgres.stop(Shutdown::Immediate).await;
                fault.last().await;
                self.postgres.start().await;
            }
            DatabaseFault::Freeze => {
                self.postgres.pause();
                fault.last().await;
                self.postgres.resume();
            }
            DatabaseFault::TerminateRelays => {
                let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                           WHERE application_name = 'outbox-relay' AND datname = current_database()";
                self.sql().await.batch_execute(sql).await.expect("the relays' backends can be terminated");
            }
            DatabaseFault::LockTable => {
                self.hold("LOCK TABLE outbox.events IN ACCESS EXCLUSIVE MODE", fault).await;
            }
            DatabaseFault::LockRows => {
                let sql = "SELECT FROM outbox.events WHERE status = 'PENDING' LIMIT 5 FOR UPDATE SKIP LOCKED";
                self.hold(sql, fault).await;
            }
        }
    }

    async fn hold(&self, lock: &str, fault: &Fault<DatabaseFault>) {
        let db = self.sql().await;
        db.batch_execute(&format!("BEGIN; {lock}")).await.expect("a lock");
        fault.last().await;
        db.batch_execute("ROLLBACK").await.expect("no lock");
    }

    async fn sql(&self) -> Connection {
        connect(self.db.url()).await
    }
}

impl<Kind> Fault<Kind> {
    /// The one place where time passes by itself: a fault has a length.
    pub(super) async fn last(&self) {
        tokio::time::sleep(Duration::from_millis(self.ms.into())).await;
    }
}
