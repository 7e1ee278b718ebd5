// SPDX-License-Identifier: BSD-2-Clause

//! The crate as one of the peers: bench/peers/README.md has the protocol, of which this does `cycles`.
//! usage: bench blocking|tokio cycles WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE   (nodes from REDLOCK_NODES)

use std::time::Duration;

use libredlock::{AsyncClient, Client, ClientOptions};

const READY: Duration = Duration::from_secs(30);

struct Task {
    workers: usize,
    ttl: Duration,
    resource: String,
    opens: i64,
    closes: i64,
}

#[derive(Default)]
struct Counted {
    latencies: Vec<i64>,
    failed: usize,
}

impl Counted {
    fn count(&mut self, task: &Task, from: i64, went_well: bool) -> i64 {
        let to = now_us();
        if !went_well {
            self.failed += 1;
        } else if to >= task.opens && to < task.closes {
            self.latencies.push(to - from);
        }
        to
    }

    fn print(mut self, task: &Task) {
        self.latencies.sort_unstable();
        let count = self.latencies.len();
        let percentile = |percent: usize| if count == 0 { 0 } else { self.latencies[(count - 1) * percent / 100] };
        println!(
            "{{\"cycles\": {count}, \"open_us\": {}, \"failed\": {}, \"p50_us\": {}, \"p99_us\": {}, \"max_us\": {}}}",
            task.closes - task.opens,
            self.failed,
            percentile(50),
            percentile(99),
            percentile(100)
        );
    }
}

/// Of the clock that all processes share.
fn now_us() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

/// Says that it is ready, and waits until it may start.
fn task(words: &[String]) -> Option<Task> {
    let number = |at: usize| words[at].parse::<i64>().expect("a number");
    println!("{{\"version\": \"0.1.0\", \"defaults\": \"node timeout 5 s instead of 50 ms\"}}");
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).unwrap_or(0) == 0 {
        return None;
    }
    let opens = now_us() + number(4) * 1000;
    let (workers, ttl) = (number(3) as usize, Duration::from_millis(number(6) as u64));
    Some(Task { workers, ttl, resource: words[7].clone(), opens, closes: opens + number(5) * 1000 })
}

fn block(client: &Client, task: &Task) {
    let name = format!("{}:0", task.resource);
    let mut counted = Counted::default();
    let mut from = now_us();
    while from < task.closes {
        let lock = client.lock(&name).ttl(task.ttl).acquire();
        let went_well = lock.and_then(|lock| lock.release()).is_ok();
        from = counted.count(task, from, went_well);
    }
    counted.print(task);
}

async fn cycle(client: AsyncClient, task: &'static Task, number: usize) -> Counted {
    let name = format!("{}:{number}", task.resource);
    let mut counted = Counted::default();
    let mut from = now_us();
    while from < task.closes {
        let went_well = match client.lock(&name).ttl(task.ttl).acquire().await {
            Ok(lock) => lock.release().await.is_ok(),
            Err(_) => false,
        };
        from = counted.count(task, from, went_well);
    }
    counted
}

async fn run_tasks(client: AsyncClient, task: &'static Task) {
    let running: Vec<_> = (0..task.workers).map(|number| tokio::spawn(cycle(client.clone(), task, number))).collect();
    let mut all = Counted::default();
    for worker in running {
        let counted = worker.await.expect("a worker");
        all.latencies.extend(counted.latencies);
        all.failed += counted.failed;
    }
    all.print(task);
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = std::env::args().collect();
    assert_eq!(words.len(), 8, "usage: bench blocking|tokio cycles WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE");
    let nodes = std::env::var("REDLOCK_NODES").expect("REDLOCK_NODES");
    let options = ClientOptions::new().node_timeout(Duration::from_secs(5));
    if words[1] == "blocking" {
        let client = options.open(nodes.as_str()).expect("a client");
        client.wait_ready(READY).expect("nodes");
        task(&words).iter().for_each(|task| block(&client, task));
    } else {
        let client = options.open_async(nodes.as_str()).expect("a client");
        client.wait_ready(READY).await.expect("nodes");
        if let Some(task) = task(&words) {
            run_tasks(client, Box::leak(Box::new(task))).await;
        }
    }
}
