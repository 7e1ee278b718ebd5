// SPDX-License-Identifier: BSD-2-Clause

//! rslock as one of the peers: its defaults, on tokio's default runtime. ../README.md has the protocol.
//! usage: peer cycles|holds WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE   (nodes from REDLOCK_NODES)

use std::time::Duration;

use rslock::LockManager;

#[derive(Clone)]
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

/// Of the clock that all processes share.
fn now_us() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as i64 * 1_000_000 + now.tv_nsec as i64 / 1000
}

async fn cycle(manager: LockManager, task: Task, number: usize) -> Counted {
    let name = format!("{}:{number}", task.resource);
    let mut counted = Counted::default();
    let mut from = now_us();
    while from < task.closes {
        let lock = manager.lock(name.as_str(), task.ttl).await;
        let went_well = lock.is_ok();
        if let Ok(lock) = lock {
            manager.unlock(&lock).await;
        }
        let to = now_us();
        if !went_well {
            counted.failed += 1;
        } else if to >= task.opens && to < task.closes {
            counted.latencies.push(to - from);
        }
        from = to;
    }
    counted
}

async fn run_cycles(manager: LockManager, task: Task) {
    let running: Vec<_> =
        (0..task.workers).map(|number| tokio::spawn(cycle(manager.clone(), task.clone(), number))).collect();
    let mut all = Counted::default();
    for worker in running {
        let counted = worker.await.expect("a worker");
        all.latencies.extend(counted.latencies);
        all.failed += counted.failed;
    }
    all.latencies.sort_unstable();
    let count = all.latencies.len();
    let percentile = |percent: usize| if count == 0 { 0 } else { all.latencies[(count - 1) * percent / 100] };
    println!(
        "{{\"cycles\": {count}, \"open_us\": {}, \"failed\": {}, \"p50_us\": {}, \"p99_us\": {}, \"max_us\": {}}}",
        task.closes - task.opens,
        all.failed,
        percentile(50),
        percentile(99),
        percentile(100)
    );
}

/// Each worker is a process, so one here.
async fn run_holds(manager: LockManager, task: Task) {
    let mut turns = Vec::new();
    let mut asked = now_us();
    while now_us() < task.closes {
        let Ok(lock) = manager.lock(task.resource.as_str(), task.ttl).await else {
            continue; // it goes on waiting
        };
        let got = now_us();
        tokio::time::sleep(Duration::from_millis(1)).await;
        turns.push(format!("[{asked}, {got}, {}]", now_us()));
        manager.unlock(&lock).await;
        asked = now_us();
    }
    turns.push(format!("[{asked}, {}]", now_us()));
    println!("{{\"workers\": [[{}]]}}", turns.join(", "));
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().collect();
    assert_eq!(words.len(), 7, "usage: peer cycles|holds WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE");
    let number = |at: usize| words[at].parse::<i64>().expect("a number");
    let nodes = std::env::var("REDLOCK_NODES").expect("REDLOCK_NODES");
    let manager = LockManager::new(nodes.split(',').collect());
    // It connects when it is first asked for something.
    let lock = manager.lock(format!("{}:{}:first", words[6], std::process::id()).as_str(), Duration::from_secs(1)).await.expect("a first lock");
    manager.unlock(&lock).await;
    println!(
        "{{\"version\": \"{}\", \"defaults\": \"3 tries, 0 to 200 ms apart; waits for all nodes\"}}",
        env!("RSLOCK_VERSION")
    );
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).unwrap_or(0) == 0 {
        return; // nobody wants it any more
    }
    let opens = now_us() + number(3) * 1000;
    let task = Task {
        workers: number(2) as usize,
        ttl: Duration::from_millis(number(5) as u64),
        resource: words[6].clone(),
        opens,
        closes: opens + number(4) * 1000,
    };
    if words[1] == "holds" {
        run_holds(manager, task).await;
    } else {
        run_cycles(manager, task).await;
    }
}
