//! What is printed.

use serde::Serialize;

use super::wire::Protocol;

/// What `bench serve` prints for a server and a kind of load. Serialised, it is one JSON object
/// whose keys are these fields in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServeRow {
    /// Its name.
    pub server: String,
    /// What was spoken.
    pub protocol: Protocol,
    /// Which requests.
    pub mix: String,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Connections.
    pub connections: u32,
    /// Requests that a connection sends before it waits for their replies.
    pub pipeline: u32,
    /// Keys that were there at first.
    pub keys: u64,
    /// Requests of a round.
    pub requests: u64,
    /// Rounds.
    pub rounds: u32,
    /// Median of the rounds.
    pub median_requests_per_second: f64,
    /// The slowest round.
    pub min_requests_per_second: f64,
    /// The fastest round.
    pub max_requests_per_second: f64,
    /// Median of the ratios to the first server in the same round.
    pub ratio: f64,
    /// The least of these ratios.
    pub ratio_min: f64,
    /// The greatest of them.
    pub ratio_max: f64,
    /// Microseconds of the server's processor time a request, user and system, of all rounds; none
    /// of a server that ran already.
    pub server_us: Option<f64>,
    /// The same to that of the first server.
    pub server_us_ratio: Option<f64>,
    /// Microseconds of the client's processor time a request.
    pub client_us: f64,
    /// Microseconds from the first byte of a pipeline to the last of its replies: the median.
    pub p50_us: f64,
    /// The 99th percentile of them.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Threads that the servers were told to have.
    pub threads: u32,
    /// How the server is run.
    pub settings: String,
}

impl ServeRow {
    /// The heading of the table for people, whose rows [`table_row`](Self::table_row) gives.
    pub fn table_heading() -> String {
        format!(
            "{:<9} {:<13} {:>6} {:>6} {:>4} {:<22} {:>10} {:>10} {:>10} {:>6} {:>13} {:>9} {:>6} \
            {:>9} {:>8} {:>8} {:>9} settings",
            "protocol",
            "mix",
            "value",
            "conns",
            "pipe",
            "server",
            "requests/s",
            "min",
            "max",
            "ratio",
            "(min to max)",
            "server us",
            "ratio",
            "client us",
            "p50 us",
            "p99 us",
            "max us"
        )
    }

    /// One row of the table for people.
    pub fn table_row(&self) -> String {
        let shown = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
        let extremes = format!("{:.2} to {:.2}", self.ratio_min, self.ratio_max);
        format!(
            "{:<9} {:<13} {:>6} {:>6} {:>4} {:<22} {:>10.0} {:>10.0} {:>10.0} {:>6.2} {:>13} \
            {:>9} {:>6} {:>9.2} {:>8.0} {:>8.0} {:>9.0} {}",
            self.protocol,
            self.mix,
            self.value_bytes,
            self.connections,
            self.pipeline,
            self.server,
            self.median_requests_per_second,
            self.min_requests_per_second,
            self.max_requests_per_second,
            self.ratio,
            extremes,
            shown(self.server_us),
            shown(self.server_us_ratio),
            self.client_us,
            self.p50_us,
            self.p99_us,
            self.max_us,
            self.settings
        )
    }
}
