// SPDX-License-Identifier: BSD-2-Clause
// Written by `bindings/rust/generate` from packaging/abi.json. Do not edit.
use core::ffi::{c_char, c_int, c_void};

pub const REDLOCK_FENCE_MAX: i64 = 9007199254740991;
pub const REDLOCK_FENCE_RESOURCES_MAX: i64 = 16777216;
pub const REDLOCK_HISTOGRAM_BUCKETS: i64 = 64;
pub const REDLOCK_NODES_MAX: i64 = 15;
pub const REDLOCK_OWNER_BYTES_MAX: i64 = 128;
pub const REDLOCK_PASSWORD_BYTES_MAX: i64 = 65535;
pub const REDLOCK_QUORUM_TTL_MS_MAX: i64 = 60000;
pub const REDLOCK_READERS_MAX: i64 = 1000000;
pub const REDLOCK_RESOURCES_MAX: i64 = 64;
pub const REDLOCK_RESOURCE_BYTES_MAX: i64 = 65536;
pub const REDLOCK_SLOTS_MAX: i64 = 64;
pub const REDLOCK_SURVEY_MAX: i64 = 256;
pub const REDLOCK_TOKEN_BYTES_MAX: i64 = 1024;
pub const REDLOCK_TOKEN_HEX_BYTES: i64 = 40;
pub const REDLOCK_TTL_MS_MAX: i64 = 86400000;
pub const REDLOCK_TTL_MS_MIN: i64 = 10;
pub const REDLOCK_VERSION_MAJOR: i64 = 0;
pub const REDLOCK_VERSION_MINOR: i64 = 1;
pub const REDLOCK_VERSION_PATCH: i64 = 0;
pub const REDLOCK_WAIT_FOREVER: i64 = -1;

// (none)
pub const REDLOCK_OWN_KEYS: c_int = 8;

// redlock_change
pub const REDLOCK_CHANGE_RENEWED: c_int = 1;
pub const REDLOCK_CHANGE_UNSURE: c_int = 2;
pub const REDLOCK_CHANGE_SURE: c_int = 3;
pub const REDLOCK_CHANGE_LOST: c_int = 4;

// redlock_event_kind
pub const REDLOCK_EVENT_ACQUIRED: c_int = 1;
pub const REDLOCK_EVENT_FAILED: c_int = 2;
pub const REDLOCK_EVENT_EXTENDED: c_int = 3;
pub const REDLOCK_EVENT_LOST: c_int = 4;
pub const REDLOCK_EVENT_RELEASED: c_int = 5;
pub const REDLOCK_EVENT_DISOWNED: c_int = 6;

// redlock_key
pub const REDLOCK_KEY_OTHER: c_int = 0;
pub const REDLOCK_KEY_WAITING: c_int = 1;
pub const REDLOCK_KEY_LEADER: c_int = 2;

// redlock_leadership
pub const REDLOCK_LEADER_UNKNOWN: c_int = 0;
pub const REDLOCK_LEADER_NONE: c_int = 1;
pub const REDLOCK_LEADER_KNOWN: c_int = 2;

// redlock_log_level
pub const REDLOCK_LOG_ERROR: c_int = 0;
pub const REDLOCK_LOG_WARNING: c_int = 1;
pub const REDLOCK_LOG_INFO: c_int = 2;
pub const REDLOCK_LOG_DEBUG: c_int = 3;

// redlock_mode
pub const REDLOCK_MODE_CLASSIC: c_int = 0;
pub const REDLOCK_MODE_GUARDED: c_int = 1;
pub const REDLOCK_MODE_AUTO: c_int = 2;

// redlock_obstacle
pub const REDLOCK_OBSTACLE_NONE: c_int = 0;
pub const REDLOCK_OBSTACLE_SILENT: c_int = 1;
pub const REDLOCK_OBSTACLE_ERROR: c_int = 2;
pub const REDLOCK_OBSTACLE_RECORD: c_int = 3;
pub const REDLOCK_OBSTACLE_SETUP: c_int = 4;

// redlock_quorum_change
pub const REDLOCK_QUORUM_CHANGE_UNKNOWN: c_int = 0;
pub const REDLOCK_QUORUM_CHANGE_ADD: c_int = 1;
pub const REDLOCK_QUORUM_CHANGE_REMOVE: c_int = 2;
pub const REDLOCK_QUORUM_CHANGE_TTL_MAX: c_int = 3;

// redlock_result
pub const REDLOCK_OK: c_int = 0;
pub const REDLOCK_HELD: c_int = -1;
pub const REDLOCK_NO_QUORUM: c_int = -2;
pub const REDLOCK_EXPIRED: c_int = -3;
pub const REDLOCK_LOST: c_int = -4;
pub const REDLOCK_CANCELLED: c_int = -5;
pub const REDLOCK_BAD_ARGUMENT: c_int = -6;
pub const REDLOCK_NO_MEMORY: c_int = -7;
pub const REDLOCK_FORKED: c_int = -8;
pub const REDLOCK_BUSY: c_int = -9;
pub const REDLOCK_SYSTEM: c_int = -10;
pub const REDLOCK_TWICE_LISTED: c_int = -11;
pub const REDLOCK_LIMIT: c_int = -12;
pub const REDLOCK_FENCED: c_int = -13;
pub const REDLOCK_TTL_MAX_EXCEEDED: c_int = -14;
pub const REDLOCK_CONFLICT: c_int = -15;
pub const REDLOCK_TWO_QUORUMS: c_int = -16;
pub const REDLOCK_GUARDED_NODES: c_int = -17;
pub const REDLOCK_OTHER_SLOTS: c_int = -18;
pub const REDLOCK_NO_SLOTS: c_int = -19;
pub const REDLOCK_NO_SHARED: c_int = -20;

// redlock_role
pub const REDLOCK_ROLE_UNKNOWN: c_int = 0;
pub const REDLOCK_ROLE_MASTER: c_int = 1;
pub const REDLOCK_ROLE_REPLICA: c_int = 2;

// redlock_scheme
pub const REDLOCK_SCHEME_SET: c_int = 0;
pub const REDLOCK_SCHEME_SETNX: c_int = 1;
pub const REDLOCK_SCHEME_SETNX_MS: c_int = 2;

// redlock_scripts
pub const REDLOCK_SCRIPTS_RUN: c_int = 0;
pub const REDLOCK_SCRIPTS_DENIED: c_int = 1;
pub const REDLOCK_SCRIPTS_UNKNOWN: c_int = 2;
pub const REDLOCK_SCRIPTS_NO_ENGINE: c_int = 3;

// redlock_server_info_refused
pub const REDLOCK_SERVER_INFO_NO_TIME: c_int = 1;
pub const REDLOCK_SERVER_INFO_NO_INFO: c_int = 2;
pub const REDLOCK_SERVER_INFO_NO_CONFIG: c_int = 4;

// redlock_server_info_what
pub const REDLOCK_SERVER_INFO_CLOCK: c_int = 1;
pub const REDLOCK_SERVER_INFO_ALL: c_int = 2;
pub const REDLOCK_SERVER_INFO_PERMISSIONS: c_int = 3;

// redlock_stale
pub const REDLOCK_STALE_PROCESS: c_int = 1;
pub const REDLOCK_STALE_REPLICATION: c_int = 2;
pub const REDLOCK_STALE_EVICTED: c_int = 4;

// redlock_state
pub const REDLOCK_STATE_FREE: c_int = 0;
pub const REDLOCK_STATE_ACQUIRING: c_int = 1;
pub const REDLOCK_STATE_HELD: c_int = 2;
pub const REDLOCK_STATE_UNSURE: c_int = 3;
pub const REDLOCK_STATE_LOST: c_int = 4;
pub const REDLOCK_STATE_RELEASING: c_int = 5;

// redlock_verdict
pub const REDLOCK_VERDICT_NONE: c_int = 0;
pub const REDLOCK_VERDICT_GRANTED: c_int = 1;
pub const REDLOCK_VERDICT_DENIED: c_int = 2;
pub const REDLOCK_VERDICT_ABSENT: c_int = 3;
pub const REDLOCK_VERDICT_TIMEOUT: c_int = 4;
pub const REDLOCK_VERDICT_CONNECTING: c_int = 5;
pub const REDLOCK_VERDICT_REFUSED: c_int = 6;
pub const REDLOCK_VERDICT_DISCONNECTED: c_int = 7;
pub const REDLOCK_VERDICT_NAME: c_int = 8;
pub const REDLOCK_VERDICT_TLS: c_int = 9;
pub const REDLOCK_VERDICT_AUTH: c_int = 10;
pub const REDLOCK_VERDICT_NOPERM: c_int = 11;
pub const REDLOCK_VERDICT_OOM: c_int = 12;
pub const REDLOCK_VERDICT_MISCONF: c_int = 13;
pub const REDLOCK_VERDICT_READONLY: c_int = 14;
pub const REDLOCK_VERDICT_LOADING: c_int = 15;
pub const REDLOCK_VERDICT_BUSY: c_int = 16;
pub const REDLOCK_VERDICT_NOREPLICAS: c_int = 17;
pub const REDLOCK_VERDICT_WRONGTYPE: c_int = 18;
pub const REDLOCK_VERDICT_MAXCLIENTS: c_int = 19;
pub const REDLOCK_VERDICT_PROTOCOL: c_int = 20;
pub const REDLOCK_VERDICT_CLUSTER: c_int = 21;
pub const REDLOCK_VERDICT_MASTERDOWN: c_int = 22;
pub const REDLOCK_VERDICT_TWICE_LISTED: c_int = 23;
pub const REDLOCK_VERDICT_NO_MEMORY: c_int = 24;
pub const REDLOCK_VERDICT_ERROR: c_int = 25;
pub const REDLOCK_VERDICT_RECOVERING: c_int = 26;
pub const REDLOCK_VERDICT_FOREIGN: c_int = 27;
pub const REDLOCK_VERDICT_STALE: c_int = 28;
pub const REDLOCK_VERDICT_NO_RECORD: c_int = 29;
pub const REDLOCK_VERDICT_UNFIT: c_int = 30;
pub const REDLOCK_VERDICT_GUARDED: c_int = 31;
pub const REDLOCK_VERDICT_UNACCEPTED: c_int = 32;
pub const REDLOCK_VERDICT_OTHER_SLOTS: c_int = 33;
pub const REDLOCK_VERDICT_NOT_SHARED: c_int = 34;
pub const REDLOCK_VERDICT_NO_SCRIPTS: c_int = 35;

pub type redlock_change_fn = unsafe extern "C" fn(context: *mut c_void, lock: *mut redlock_lock, change: c_int);

pub type redlock_done_fn = unsafe extern "C" fn(context: *mut c_void, lock: *mut redlock_lock, result: c_int);

pub type redlock_event_fn = unsafe extern "C" fn(context: *mut c_void, event: *const redlock_event);

pub type redlock_fence_act_fn = unsafe extern "C" fn(context: *mut c_void);

pub type redlock_log_fn = unsafe extern "C" fn(context: *mut c_void, level: c_int, text: *const c_char);

pub type redlock_observe_fn = unsafe extern "C" fn(context: *mut c_void, leader: *const redlock_leader);

pub type redlock_password_fn = unsafe extern "C" fn(context: *mut c_void, password: *mut c_char, size: usize, error: *mut redlock_error) -> c_int;

pub type redlock_progress_fn = unsafe extern "C" fn(context: *mut c_void, text: *const c_char, left_ms: i64);

pub type redlock_reader_fn = unsafe extern "C" fn(context: *mut c_void, resource: usize, node: usize, token: *const c_void, bytes: usize, remaining_ms: i64);

pub type redlock_resource_fn = unsafe extern "C" fn(context: *mut c_void, resource: *const c_void, bytes: usize);

pub type redlock_scan_fn = unsafe extern "C" fn(context: *mut c_void, node: usize, what: c_int, resource: *const c_void, bytes: usize);

#[repr(C)]
pub struct redlock_client {
    _private: [u8; 0],
}

#[repr(C)]
pub struct redlock_fence_gate {
    _private: [u8; 0],
}

#[repr(C)]
pub struct redlock_lock {
    _private: [u8; 0],
}

#[repr(C)]
pub struct redlock_observer {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_break_options {
    pub size: usize,
    pub token: *const c_void,
    pub token_bytes: usize,
    pub retry_ms: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_break_report {
    pub size: usize,
    pub deleted: c_int,
    pub certain: c_int,
    pub fence: i64,
    pub remaining_ms: i64,
    pub owner_bytes: usize,
    pub owner: [c_char; 256],
    pub silent: u32,
    pub verdicts: [c_int; 15],
    pub unlisted: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_bytes {
    pub data: *const c_void,
    pub bytes: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_client_options {
    pub size: usize,
    pub node_timeout_ms: i64,
    pub connect_timeout_ms: i64,
    pub stall_timeout_ms: i64,
    pub drift_ppm: u32,
    pub drift_ms: u32,
    pub service_thread: c_int,
    pub key_prefix: *const c_char,
    pub key_prefix_bytes: usize,
    pub tls_ca_file: *const c_char,
    pub tls_cert_file: *const c_char,
    pub tls_key_file: *const c_char,
    pub tls_server_name: *const c_char,
    pub log: Option<redlock_log_fn>,
    pub log_context: *mut c_void,
    pub log_level: c_int,
    pub mode: c_int,
    pub confirm: c_int,
    pub recover: c_int,
    pub quorum: *const c_char,
    pub allow_replicas: c_int,
    pub user: *const c_char,
    pub password_file: *const c_char,
    pub password: Option<redlock_password_fn>,
    pub password_context: *mut c_void,
    pub queue: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_error {
    pub result: c_int,
    pub text: [c_char; 512],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_event {
    pub size: usize,
    pub kind: c_int,
    pub result: c_int,
    pub lock: *const redlock_lock,
    pub resources: *const redlock_bytes,
    pub resources_count: usize,
    pub fence: i64,
    pub began_ns: i64,
    pub ended_ns: i64,
    pub acquired_ns: i64,
    pub validity_end_ns: i64,
    pub tries: u32,
    pub verdicts: *const c_int,
    pub nodes: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_fence_gate_options {
    pub size: usize,
    pub path: *const c_char,
    pub resources: usize,
    pub create: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_histogram {
    pub count: u64,
    pub sum_ns: u64,
    pub buckets: [u64; 64],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_leader {
    pub size: usize,
    pub state: c_int,
    pub term: i64,
    pub id: redlock_bytes,
    pub sure_until_ns: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_lock_options {
    pub size: usize,
    pub ttl_ms: i64,
    pub validity_ms_min: i64,
    pub renew: c_int,
    pub renew_interval_ms: i64,
    pub hold_ms_max: i64,
    pub renew_count_max: u32,
    pub lost_margin_ms: i64,
    pub retry_count_max: u32,
    pub retry_delay_ms_min: i64,
    pub retry_delay_ms_max: i64,
    pub owner: *const c_void,
    pub owner_bytes: usize,
    pub on_change: Option<redlock_change_fn>,
    pub on_change_context: *mut c_void,
    pub leader: c_int,
    pub slots: u32,
    pub shared: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_member {
    pub size: usize,
    pub id: [c_char; 17],
    pub url: [c_char; 256],
    pub node: c_int,
    pub verdict: c_int,
    pub recovering_ms: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_node_status {
    pub size: usize,
    pub url: *const c_char,
    pub verdict: c_int,
    pub run_id: [c_char; 41],
    pub version: [c_char; 16],
    pub text: [c_char; 160],
    pub uses_transactions: c_int,
    pub recovering_ms: i64,
    pub node_id: [c_char; 17],
    pub scheme: c_int,
    pub native: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_own_key {
    pub size: usize,
    pub name: [c_char; 256],
    pub denied: c_int,
    pub foreign: c_int,
    pub r#type: [c_char; 16],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_queue_view {
    pub verdict: c_int,
    pub waiters: i64,
    pub oldest_ms: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_quorum_options {
    pub size: usize,
    pub ttl_ms_max: i64,
    pub fence_floor: i64,
    pub never_used: c_int,
    pub progress: Option<redlock_progress_fn>,
    pub progress_context: *mut c_void,
    pub ttl_ms_max_before: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_quorum_status {
    pub size: usize,
    pub known: c_int,
    pub id: [c_char; 17],
    pub epoch: u32,
    pub settled: c_int,
    pub ttl_ms_max: i64,
    pub members: usize,
    pub intact: usize,
    pub votes_needed: usize,
    pub ttl_ms_allowed: i64,
    pub ttl_ms_next: i64,
    pub behind: usize,
    pub change: c_int,
    pub change_id: [c_char; 17],
    pub change_url: [c_char; 256],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_readers_view {
    pub verdict: c_int,
    pub readers: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_server {
    pub size: usize,
    pub verdict: c_int,
    pub refused: c_int,
    pub asked_ns: i64,
    pub answered_ns: i64,
    pub clock_us: i64,
    pub server: [c_char; 16],
    pub version: [c_char; 16],
    pub redis_version: [c_char; 16],
    pub run_id: [c_char; 41],
    pub uptime_s: i64,
    pub role: c_int,
    pub replicas: c_int,
    pub loading: c_int,
    pub writes_refused: c_int,
    pub memory_bytes: i64,
    pub memory_bytes_max: i64,
    pub eviction: [c_char; 24],
    pub append_only: c_int,
    pub append_fsync: [c_char; 12],
    pub snapshots: c_int,
    pub clients: i64,
    pub clients_max: i64,
    pub protected_mode: c_int,
    pub bind: [c_char; 128],
    pub bind_known: c_int,
    pub tcp_port: i64,
    pub quorum: [c_char; 17],
    pub announces: c_int,
    pub stale: c_int,
    pub reconnects: i64,
    pub native: c_int,
    pub module: [c_char; 16],
    pub mirror: c_int,
    pub replicas_lacking: c_int,
    pub denied: [c_char; 192],
    pub denied_others: [c_char; 160],
    pub fsync_pauses: c_int,
    pub unknown: c_int,
    pub scripts: c_int,
    pub last_denied: [c_char; 24],
    pub last_unknown: [c_char; 24],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_stats {
    pub size: usize,
    pub attempts: u64,
    pub acquired: u64,
    pub retries: u64,
    pub votes_granted: u64,
    pub votes_denied: u64,
    pub votes_lost: u64,
    pub extensions: u64,
    pub extensions_failed: u64,
    pub released: u64,
    pub lost: u64,
    pub reconnects: u64,
    pub splits: u64,
    pub wakeups: u64,
    pub overloads: u64,
    pub renewals_needed: u64,
    pub renewals_done: u64,
    pub waited: redlock_histogram,
    pub held: redlock_histogram,
    pub validity_left: redlock_histogram,
    pub handed_over: redlock_histogram,
    pub ttl_max_ms: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_view {
    pub verdict: c_int,
    pub remaining_ms: i64,
    pub token_bytes: usize,
    pub token_truncated: c_int,
    pub token: [u8; 1024],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_wait_status {
    pub size: usize,
    pub waiting: c_int,
    pub waited_ms: i64,
    pub ahead: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_walk {
    pub size: usize,
    pub effort: u32,
    pub ended: u32,
    pub failed: u32,
    pub cursors: [u64; 15],
    pub bytes: u64,
    pub verdicts: [c_int; 15],
    pub leaders: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_why_node {
    pub verdict: c_int,
    pub obstacle: c_int,
    pub cure: *const c_char,
    pub text: [c_char; 240],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct redlock_why_report {
    pub size: usize,
    pub result: c_int,
    pub in_vain: c_int,
    pub nodes: usize,
    pub votes_needed: usize,
    pub votes: usize,
    pub silent: usize,
    pub read: usize,
    pub named: usize,
    pub head_bytes: usize,
    pub sentence: [c_char; 2048],
    pub cure: [c_char; 1024],
    pub node: [redlock_why_node; 15],
}

extern "C" {
    pub fn redlock_acquire(lock: *mut redlock_lock, wait_ms: i64) -> c_int;
    pub fn redlock_acquire_all(locks: *const *mut redlock_lock, count: usize, wait_ms: i64) -> c_int;
    pub fn redlock_acquire_all_start(locks: *const *mut redlock_lock, count: usize, wait_ms: i64, done: Option<redlock_done_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_acquire_many(locks: *const *mut redlock_lock, count: usize, wait_ms: i64, results: *mut c_int) -> c_int;
    pub fn redlock_acquire_many_start(locks: *const *mut redlock_lock, count: usize, wait_ms: i64, results: *mut c_int, done: Option<redlock_done_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_acquire_start(lock: *mut redlock_lock, wait_ms: i64, done: Option<redlock_done_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_await_free(client: *mut redlock_client, resource: *const c_void, bytes: usize, wait_ms: i64) -> c_int;
    pub fn redlock_await_free_start(lock: *mut redlock_lock, wait_ms: i64, done: Option<redlock_done_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_break(client: *mut redlock_client, resource: *const c_void, bytes: usize, options: *const redlock_break_options, report: *mut redlock_break_report, error: *mut redlock_error) -> c_int;
    pub fn redlock_break_options_fill(options: *mut redlock_break_options, size: usize);
    pub fn redlock_cancel(lock: *mut redlock_lock);
    pub fn redlock_client_fd(client: *mut redlock_client) -> c_int;
    pub fn redlock_client_free(client: *mut redlock_client);
    pub fn redlock_client_mode(client: *mut redlock_client) -> c_int;
    pub fn redlock_client_node(client: *mut redlock_client, node: usize, status: *mut redlock_node_status) -> c_int;
    pub fn redlock_client_nodes(client: *const redlock_client) -> usize;
    pub fn redlock_client_observe(client: *mut redlock_client, each: Option<redlock_event_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_client_open(nodes: *const c_char, options: *const redlock_client_options, client: *mut *mut redlock_client, error: *mut redlock_error) -> c_int;
    pub fn redlock_client_options_fill(options: *mut redlock_client_options, size: usize);
    pub fn redlock_client_reload(client: *mut redlock_client, error: *mut redlock_error) -> c_int;
    pub fn redlock_client_stats(client: *mut redlock_client, stats: *mut redlock_stats) -> c_int;
    pub fn redlock_client_wait_ready(client: *mut redlock_client, wait_ms: i64) -> c_int;
    pub fn redlock_downgrade(lock: *mut redlock_lock) -> c_int;
    pub fn redlock_downgrade_start(lock: *mut redlock_lock, done: Option<redlock_done_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_extend(lock: *mut redlock_lock, ttl_ms: i64) -> c_int;
    pub fn redlock_extend_start(lock: *mut redlock_lock, ttl_ms: i64, done: Option<redlock_done_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_fence(lock: *mut redlock_lock) -> i64;
    pub fn redlock_fence_admit(gate: *mut redlock_fence_gate, resource: *const c_void, bytes: usize, fence: i64) -> c_int;
    pub fn redlock_fence_admit_shared(gate: *mut redlock_fence_gate, resource: *const c_void, bytes: usize, fence: i64) -> c_int;
    pub fn redlock_fence_do(gate: *mut redlock_fence_gate, resource: *const c_void, bytes: usize, fence: i64, act: Option<redlock_fence_act_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_fence_do_shared(gate: *mut redlock_fence_gate, resource: *const c_void, bytes: usize, fence: i64, act: Option<redlock_fence_act_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_fence_gate_free(gate: *mut redlock_fence_gate);
    pub fn redlock_fence_gate_open(options: *const redlock_fence_gate_options, gate: *mut *mut redlock_fence_gate, error: *mut redlock_error) -> c_int;
    pub fn redlock_fence_gate_options_fill(options: *mut redlock_fence_gate_options, size: usize);
    pub fn redlock_fence_least(gate: *mut redlock_fence_gate, resource: *const c_void, bytes: usize, fence: *mut i64) -> c_int;
    pub fn redlock_histogram_bound_ns(bucket: usize) -> i64;
    pub fn redlock_histogram_merge(histogram: *mut redlock_histogram, more: *const redlock_histogram);
    pub fn redlock_key_type(client: *mut redlock_client, resource: *const c_void, bytes: usize, r#type: *mut c_char, size: usize) -> c_int;
    pub fn redlock_list(client: *mut redlock_client, each: Option<redlock_resource_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_lock_adopt(lock: *mut redlock_lock, token: *const c_void, bytes: usize) -> c_int;
    pub fn redlock_lock_adopt_fenced(lock: *mut redlock_lock, token: *const c_void, bytes: usize, fence: i64) -> c_int;
    pub fn redlock_lock_context(lock: *const redlock_lock) -> *mut c_void;
    pub fn redlock_lock_disown(lock: *mut redlock_lock) -> c_int;
    pub fn redlock_lock_free(lock: *mut redlock_lock);
    pub fn redlock_lock_new(client: *mut redlock_client, resource: *const c_void, bytes: usize, options: *const redlock_lock_options, lock: *mut *mut redlock_lock, error: *mut redlock_error) -> c_int;
    pub fn redlock_lock_new_multi(client: *mut redlock_client, resources: *const redlock_bytes, count: usize, options: *const redlock_lock_options, lock: *mut *mut redlock_lock, error: *mut redlock_error) -> c_int;
    pub fn redlock_lock_options_fill(options: *mut redlock_lock_options, size: usize);
    pub fn redlock_lock_state(lock: *mut redlock_lock) -> c_int;
    pub fn redlock_lock_wait_status(lock: *mut redlock_lock, status: *mut redlock_wait_status) -> c_int;
    pub fn redlock_now_ns() -> i64;
    pub fn redlock_observe_start(client: *mut redlock_client, resource: *const c_void, bytes: usize, each: Option<redlock_observe_fn>, context: *mut c_void, observer: *mut *mut redlock_observer, error: *mut redlock_error) -> c_int;
    pub fn redlock_observe_stop(observer: *mut redlock_observer);
    pub fn redlock_other_slots(lock: *mut redlock_lock) -> u32;
    pub fn redlock_own_keys(client: *mut redlock_client, node: usize, resource: *const c_void, bytes: usize, keys: *mut redlock_own_key) -> c_int;
    pub fn redlock_peek(client: *mut redlock_client, resource: *const c_void, bytes: usize, views: *mut redlock_view, count: usize) -> c_int;
    pub fn redlock_peek_start(lock: *mut redlock_lock, views: *mut redlock_view, count: usize, done: Option<redlock_done_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_process(client: *mut redlock_client) -> c_int;
    pub fn redlock_quorum_add(client: *mut redlock_client, node: usize, options: *const redlock_quorum_options, error: *mut redlock_error) -> c_int;
    pub fn redlock_quorum_init(client: *mut redlock_client, options: *const redlock_quorum_options, error: *mut redlock_error) -> c_int;
    pub fn redlock_quorum_options_fill(options: *mut redlock_quorum_options, size: usize);
    pub fn redlock_quorum_peek(client: *mut redlock_client, quorum: *mut redlock_quorum_status, members: *mut redlock_member, count: usize) -> c_int;
    pub fn redlock_quorum_remove(client: *mut redlock_client, id: *const c_char, options: *const redlock_quorum_options, error: *mut redlock_error) -> c_int;
    pub fn redlock_quorum_set_ttl_max(client: *mut redlock_client, ttl_ms: i64, options: *const redlock_quorum_options, error: *mut redlock_error) -> c_int;
    pub fn redlock_readers(client: *mut redlock_client, resources: *const redlock_bytes, count: usize, most: usize, each: Option<redlock_reader_fn>, context: *mut c_void, views: *mut redlock_readers_view) -> c_int;
    pub fn redlock_release(lock: *mut redlock_lock) -> c_int;
    pub fn redlock_release_many(locks: *const *mut redlock_lock, count: usize, results: *mut c_int) -> c_int;
    pub fn redlock_release_many_start(locks: *const *mut redlock_lock, count: usize, results: *mut c_int, done: Option<redlock_done_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_release_start(lock: *mut redlock_lock, done: Option<redlock_done_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_result_text(result: c_int) -> *const c_char;
    pub fn redlock_scan(client: *mut redlock_client, walk: *mut redlock_walk, each: Option<redlock_scan_fn>, context: *mut c_void) -> c_int;
    pub fn redlock_server_info(client: *mut redlock_client, what: c_int, servers: *mut redlock_server, count: usize) -> c_int;
    pub fn redlock_slot(lock: *mut redlock_lock) -> u32;
    pub fn redlock_survey(client: *mut redlock_client, resources: *const redlock_bytes, count: usize, views: *mut redlock_view, queues: *mut redlock_queue_view) -> c_int;
    pub fn redlock_token(lock: *mut redlock_lock) -> redlock_bytes;
    pub fn redlock_token_copy(lock: *mut redlock_lock, to: *mut c_void, size: usize) -> usize;
    pub fn redlock_try(lock: *mut redlock_lock) -> c_int;
    pub fn redlock_validity_end_ns(lock: *mut redlock_lock) -> i64;
    pub fn redlock_validity_ms(lock: *mut redlock_lock) -> i64;
    pub fn redlock_verdict_text(verdict: c_int) -> *const c_char;
    pub fn redlock_verdicts(lock: *mut redlock_lock, verdicts: *mut c_int, count: usize) -> usize;
    pub fn redlock_version() -> *const c_char;
    pub fn redlock_why(client: *mut redlock_client, lock: *mut redlock_lock, result: c_int, verdicts: *const c_int, why: *mut redlock_why_report) -> c_int;
}

// The C compiler's sizes and offsets.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<redlock_break_options>() == 32);
    assert!(offset_of!(redlock_break_options, size) == 0);
    assert!(offset_of!(redlock_break_options, token) == 8);
    assert!(offset_of!(redlock_break_options, token_bytes) == 16);
    assert!(offset_of!(redlock_break_options, retry_ms) == 24);
    assert!(size_of::<redlock_break_report>() == 368);
    assert!(offset_of!(redlock_break_report, size) == 0);
    assert!(offset_of!(redlock_break_report, deleted) == 8);
    assert!(offset_of!(redlock_break_report, certain) == 12);
    assert!(offset_of!(redlock_break_report, fence) == 16);
    assert!(offset_of!(redlock_break_report, remaining_ms) == 24);
    assert!(offset_of!(redlock_break_report, owner_bytes) == 32);
    assert!(offset_of!(redlock_break_report, owner) == 40);
    assert!(offset_of!(redlock_break_report, silent) == 296);
    assert!(offset_of!(redlock_break_report, verdicts) == 300);
    assert!(offset_of!(redlock_break_report, unlisted) == 360);
    assert!(size_of::<redlock_bytes>() == 16);
    assert!(offset_of!(redlock_bytes, data) == 0);
    assert!(offset_of!(redlock_bytes, bytes) == 8);
    assert!(size_of::<redlock_client_options>() == 184);
    assert!(offset_of!(redlock_client_options, size) == 0);
    assert!(offset_of!(redlock_client_options, node_timeout_ms) == 8);
    assert!(offset_of!(redlock_client_options, connect_timeout_ms) == 16);
    assert!(offset_of!(redlock_client_options, stall_timeout_ms) == 24);
    assert!(offset_of!(redlock_client_options, drift_ppm) == 32);
    assert!(offset_of!(redlock_client_options, drift_ms) == 36);
    assert!(offset_of!(redlock_client_options, service_thread) == 40);
    assert!(offset_of!(redlock_client_options, key_prefix) == 48);
    assert!(offset_of!(redlock_client_options, key_prefix_bytes) == 56);
    assert!(offset_of!(redlock_client_options, tls_ca_file) == 64);
    assert!(offset_of!(redlock_client_options, tls_cert_file) == 72);
    assert!(offset_of!(redlock_client_options, tls_key_file) == 80);
    assert!(offset_of!(redlock_client_options, tls_server_name) == 88);
    assert!(offset_of!(redlock_client_options, log) == 96);
    assert!(offset_of!(redlock_client_options, log_context) == 104);
    assert!(offset_of!(redlock_client_options, log_level) == 112);
    assert!(offset_of!(redlock_client_options, mode) == 116);
    assert!(offset_of!(redlock_client_options, confirm) == 120);
    assert!(offset_of!(redlock_client_options, recover) == 124);
    assert!(offset_of!(redlock_client_options, quorum) == 128);
    assert!(offset_of!(redlock_client_options, allow_replicas) == 136);
    assert!(offset_of!(redlock_client_options, user) == 144);
    assert!(offset_of!(redlock_client_options, password_file) == 152);
    assert!(offset_of!(redlock_client_options, password) == 160);
    assert!(offset_of!(redlock_client_options, password_context) == 168);
    assert!(offset_of!(redlock_client_options, queue) == 176);
    assert!(size_of::<redlock_error>() == 516);
    assert!(offset_of!(redlock_error, result) == 0);
    assert!(offset_of!(redlock_error, text) == 4);
    assert!(size_of::<redlock_event>() == 104);
    assert!(offset_of!(redlock_event, size) == 0);
    assert!(offset_of!(redlock_event, kind) == 8);
    assert!(offset_of!(redlock_event, result) == 12);
    assert!(offset_of!(redlock_event, lock) == 16);
    assert!(offset_of!(redlock_event, resources) == 24);
    assert!(offset_of!(redlock_event, resources_count) == 32);
    assert!(offset_of!(redlock_event, fence) == 40);
    assert!(offset_of!(redlock_event, began_ns) == 48);
    assert!(offset_of!(redlock_event, ended_ns) == 56);
    assert!(offset_of!(redlock_event, acquired_ns) == 64);
    assert!(offset_of!(redlock_event, validity_end_ns) == 72);
    assert!(offset_of!(redlock_event, tries) == 80);
    assert!(offset_of!(redlock_event, verdicts) == 88);
    assert!(offset_of!(redlock_event, nodes) == 96);
    assert!(size_of::<redlock_fence_gate_options>() == 32);
    assert!(offset_of!(redlock_fence_gate_options, size) == 0);
    assert!(offset_of!(redlock_fence_gate_options, path) == 8);
    assert!(offset_of!(redlock_fence_gate_options, resources) == 16);
    assert!(offset_of!(redlock_fence_gate_options, create) == 24);
    assert!(size_of::<redlock_histogram>() == 528);
    assert!(offset_of!(redlock_histogram, count) == 0);
    assert!(offset_of!(redlock_histogram, sum_ns) == 8);
    assert!(offset_of!(redlock_histogram, buckets) == 16);
    assert!(size_of::<redlock_leader>() == 48);
    assert!(offset_of!(redlock_leader, size) == 0);
    assert!(offset_of!(redlock_leader, state) == 8);
    assert!(offset_of!(redlock_leader, term) == 16);
    assert!(offset_of!(redlock_leader, id) == 24);
    assert!(offset_of!(redlock_leader, sure_until_ns) == 40);
    assert!(size_of::<redlock_lock_options>() == 136);
    assert!(offset_of!(redlock_lock_options, size) == 0);
    assert!(offset_of!(redlock_lock_options, ttl_ms) == 8);
    assert!(offset_of!(redlock_lock_options, validity_ms_min) == 16);
    assert!(offset_of!(redlock_lock_options, renew) == 24);
    assert!(offset_of!(redlock_lock_options, renew_interval_ms) == 32);
    assert!(offset_of!(redlock_lock_options, hold_ms_max) == 40);
    assert!(offset_of!(redlock_lock_options, renew_count_max) == 48);
    assert!(offset_of!(redlock_lock_options, lost_margin_ms) == 56);
    assert!(offset_of!(redlock_lock_options, retry_count_max) == 64);
    assert!(offset_of!(redlock_lock_options, retry_delay_ms_min) == 72);
    assert!(offset_of!(redlock_lock_options, retry_delay_ms_max) == 80);
    assert!(offset_of!(redlock_lock_options, owner) == 88);
    assert!(offset_of!(redlock_lock_options, owner_bytes) == 96);
    assert!(offset_of!(redlock_lock_options, on_change) == 104);
    assert!(offset_of!(redlock_lock_options, on_change_context) == 112);
    assert!(offset_of!(redlock_lock_options, leader) == 120);
    assert!(offset_of!(redlock_lock_options, slots) == 124);
    assert!(offset_of!(redlock_lock_options, shared) == 128);
    assert!(size_of::<redlock_member>() == 304);
    assert!(offset_of!(redlock_member, size) == 0);
    assert!(offset_of!(redlock_member, id) == 8);
    assert!(offset_of!(redlock_member, url) == 25);
    assert!(offset_of!(redlock_member, node) == 284);
    assert!(offset_of!(redlock_member, verdict) == 288);
    assert!(offset_of!(redlock_member, recovering_ms) == 296);
    assert!(size_of::<redlock_node_status>() == 288);
    assert!(offset_of!(redlock_node_status, size) == 0);
    assert!(offset_of!(redlock_node_status, url) == 8);
    assert!(offset_of!(redlock_node_status, verdict) == 16);
    assert!(offset_of!(redlock_node_status, run_id) == 20);
    assert!(offset_of!(redlock_node_status, version) == 61);
    assert!(offset_of!(redlock_node_status, text) == 77);
    assert!(offset_of!(redlock_node_status, uses_transactions) == 240);
    assert!(offset_of!(redlock_node_status, recovering_ms) == 248);
    assert!(offset_of!(redlock_node_status, node_id) == 256);
    assert!(offset_of!(redlock_node_status, scheme) == 276);
    assert!(offset_of!(redlock_node_status, native) == 280);
    assert!(size_of::<redlock_own_key>() == 288);
    assert!(offset_of!(redlock_own_key, size) == 0);
    assert!(offset_of!(redlock_own_key, name) == 8);
    assert!(offset_of!(redlock_own_key, denied) == 264);
    assert!(offset_of!(redlock_own_key, foreign) == 268);
    assert!(offset_of!(redlock_own_key, r#type) == 272);
    assert!(size_of::<redlock_queue_view>() == 24);
    assert!(offset_of!(redlock_queue_view, verdict) == 0);
    assert!(offset_of!(redlock_queue_view, waiters) == 8);
    assert!(offset_of!(redlock_queue_view, oldest_ms) == 16);
    assert!(size_of::<redlock_quorum_options>() == 56);
    assert!(offset_of!(redlock_quorum_options, size) == 0);
    assert!(offset_of!(redlock_quorum_options, ttl_ms_max) == 8);
    assert!(offset_of!(redlock_quorum_options, fence_floor) == 16);
    assert!(offset_of!(redlock_quorum_options, never_used) == 24);
    assert!(offset_of!(redlock_quorum_options, progress) == 32);
    assert!(offset_of!(redlock_quorum_options, progress_context) == 40);
    assert!(offset_of!(redlock_quorum_options, ttl_ms_max_before) == 48);
    assert!(size_of::<redlock_quorum_status>() == 376);
    assert!(offset_of!(redlock_quorum_status, size) == 0);
    assert!(offset_of!(redlock_quorum_status, known) == 8);
    assert!(offset_of!(redlock_quorum_status, id) == 12);
    assert!(offset_of!(redlock_quorum_status, epoch) == 32);
    assert!(offset_of!(redlock_quorum_status, settled) == 36);
    assert!(offset_of!(redlock_quorum_status, ttl_ms_max) == 40);
    assert!(offset_of!(redlock_quorum_status, members) == 48);
    assert!(offset_of!(redlock_quorum_status, intact) == 56);
    assert!(offset_of!(redlock_quorum_status, votes_needed) == 64);
    assert!(offset_of!(redlock_quorum_status, ttl_ms_allowed) == 72);
    assert!(offset_of!(redlock_quorum_status, ttl_ms_next) == 80);
    assert!(offset_of!(redlock_quorum_status, behind) == 88);
    assert!(offset_of!(redlock_quorum_status, change) == 96);
    assert!(offset_of!(redlock_quorum_status, change_id) == 100);
    assert!(offset_of!(redlock_quorum_status, change_url) == 117);
    assert!(size_of::<redlock_readers_view>() == 16);
    assert!(offset_of!(redlock_readers_view, verdict) == 0);
    assert!(offset_of!(redlock_readers_view, readers) == 8);
    assert!(size_of::<redlock_server>() == 864);
    assert!(offset_of!(redlock_server, size) == 0);
    assert!(offset_of!(redlock_server, verdict) == 8);
    assert!(offset_of!(redlock_server, refused) == 12);
    assert!(offset_of!(redlock_server, asked_ns) == 16);
    assert!(offset_of!(redlock_server, answered_ns) == 24);
    assert!(offset_of!(redlock_server, clock_us) == 32);
    assert!(offset_of!(redlock_server, server) == 40);
    assert!(offset_of!(redlock_server, version) == 56);
    assert!(offset_of!(redlock_server, redis_version) == 72);
    assert!(offset_of!(redlock_server, run_id) == 88);
    assert!(offset_of!(redlock_server, uptime_s) == 136);
    assert!(offset_of!(redlock_server, role) == 144);
    assert!(offset_of!(redlock_server, replicas) == 148);
    assert!(offset_of!(redlock_server, loading) == 152);
    assert!(offset_of!(redlock_server, writes_refused) == 156);
    assert!(offset_of!(redlock_server, memory_bytes) == 160);
    assert!(offset_of!(redlock_server, memory_bytes_max) == 168);
    assert!(offset_of!(redlock_server, eviction) == 176);
    assert!(offset_of!(redlock_server, append_only) == 200);
    assert!(offset_of!(redlock_server, append_fsync) == 204);
    assert!(offset_of!(redlock_server, snapshots) == 216);
    assert!(offset_of!(redlock_server, clients) == 224);
    assert!(offset_of!(redlock_server, clients_max) == 232);
    assert!(offset_of!(redlock_server, protected_mode) == 240);
    assert!(offset_of!(redlock_server, bind) == 244);
    assert!(offset_of!(redlock_server, bind_known) == 372);
    assert!(offset_of!(redlock_server, tcp_port) == 376);
    assert!(offset_of!(redlock_server, quorum) == 384);
    assert!(offset_of!(redlock_server, announces) == 404);
    assert!(offset_of!(redlock_server, stale) == 408);
    assert!(offset_of!(redlock_server, reconnects) == 416);
    assert!(offset_of!(redlock_server, native) == 424);
    assert!(offset_of!(redlock_server, module) == 428);
    assert!(offset_of!(redlock_server, mirror) == 444);
    assert!(offset_of!(redlock_server, replicas_lacking) == 448);
    assert!(offset_of!(redlock_server, denied) == 452);
    assert!(offset_of!(redlock_server, denied_others) == 644);
    assert!(offset_of!(redlock_server, fsync_pauses) == 804);
    assert!(offset_of!(redlock_server, unknown) == 808);
    assert!(offset_of!(redlock_server, scripts) == 812);
    assert!(offset_of!(redlock_server, last_denied) == 816);
    assert!(offset_of!(redlock_server, last_unknown) == 840);
    assert!(size_of::<redlock_stats>() == 2256);
    assert!(offset_of!(redlock_stats, size) == 0);
    assert!(offset_of!(redlock_stats, attempts) == 8);
    assert!(offset_of!(redlock_stats, acquired) == 16);
    assert!(offset_of!(redlock_stats, retries) == 24);
    assert!(offset_of!(redlock_stats, votes_granted) == 32);
    assert!(offset_of!(redlock_stats, votes_denied) == 40);
    assert!(offset_of!(redlock_stats, votes_lost) == 48);
    assert!(offset_of!(redlock_stats, extensions) == 56);
    assert!(offset_of!(redlock_stats, extensions_failed) == 64);
    assert!(offset_of!(redlock_stats, released) == 72);
    assert!(offset_of!(redlock_stats, lost) == 80);
    assert!(offset_of!(redlock_stats, reconnects) == 88);
    assert!(offset_of!(redlock_stats, splits) == 96);
    assert!(offset_of!(redlock_stats, wakeups) == 104);
    assert!(offset_of!(redlock_stats, overloads) == 112);
    assert!(offset_of!(redlock_stats, renewals_needed) == 120);
    assert!(offset_of!(redlock_stats, renewals_done) == 128);
    assert!(offset_of!(redlock_stats, waited) == 136);
    assert!(offset_of!(redlock_stats, held) == 664);
    assert!(offset_of!(redlock_stats, validity_left) == 1192);
    assert!(offset_of!(redlock_stats, handed_over) == 1720);
    assert!(offset_of!(redlock_stats, ttl_max_ms) == 2248);
    assert!(size_of::<redlock_view>() == 1056);
    assert!(offset_of!(redlock_view, verdict) == 0);
    assert!(offset_of!(redlock_view, remaining_ms) == 8);
    assert!(offset_of!(redlock_view, token_bytes) == 16);
    assert!(offset_of!(redlock_view, token_truncated) == 24);
    assert!(offset_of!(redlock_view, token) == 28);
    assert!(size_of::<redlock_wait_status>() == 32);
    assert!(offset_of!(redlock_wait_status, size) == 0);
    assert!(offset_of!(redlock_wait_status, waiting) == 8);
    assert!(offset_of!(redlock_wait_status, waited_ms) == 16);
    assert!(offset_of!(redlock_wait_status, ahead) == 24);
    assert!(size_of::<redlock_walk>() == 216);
    assert!(offset_of!(redlock_walk, size) == 0);
    assert!(offset_of!(redlock_walk, effort) == 8);
    assert!(offset_of!(redlock_walk, ended) == 12);
    assert!(offset_of!(redlock_walk, failed) == 16);
    assert!(offset_of!(redlock_walk, cursors) == 24);
    assert!(offset_of!(redlock_walk, bytes) == 144);
    assert!(offset_of!(redlock_walk, verdicts) == 152);
    assert!(offset_of!(redlock_walk, leaders) == 212);
    assert!(size_of::<redlock_why_node>() == 256);
    assert!(offset_of!(redlock_why_node, verdict) == 0);
    assert!(offset_of!(redlock_why_node, obstacle) == 4);
    assert!(offset_of!(redlock_why_node, cure) == 8);
    assert!(offset_of!(redlock_why_node, text) == 16);
    assert!(size_of::<redlock_why_report>() == 6984);
    assert!(offset_of!(redlock_why_report, size) == 0);
    assert!(offset_of!(redlock_why_report, result) == 8);
    assert!(offset_of!(redlock_why_report, in_vain) == 12);
    assert!(offset_of!(redlock_why_report, nodes) == 16);
    assert!(offset_of!(redlock_why_report, votes_needed) == 24);
    assert!(offset_of!(redlock_why_report, votes) == 32);
    assert!(offset_of!(redlock_why_report, silent) == 40);
    assert!(offset_of!(redlock_why_report, read) == 48);
    assert!(offset_of!(redlock_why_report, named) == 56);
    assert!(offset_of!(redlock_why_report, head_bytes) == 64);
    assert!(offset_of!(redlock_why_report, sentence) == 72);
    assert!(offset_of!(redlock_why_report, cure) == 2120);
    assert!(offset_of!(redlock_why_report, node) == 3144);
};
