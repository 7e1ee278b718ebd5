// SPDX-License-Identifier: BSD-2-Clause

//! Random acquisitions, releases, cancellations, forks and drops: nothing crashes, nothing leaks, and
//! nothing stays locked. REDLOCK_SOAK_S (4) says how long.
#![cfg(feature = "tokio")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;
use std::{env, fs, thread};

use common::{ms, until, Servers};
use libredlock::{AsyncClient, Client};

const RESOURCES: u64 = 6;
const KIB_MAX: u64 = 6 * 1024;

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

fn block(servers: &Servers, random: &mut Random) {
    let client = Client::open(servers.nodes().as_str()).unwrap();
    let mut held = Vec::new();
    for _ in 0..100 {
        let name = format!("soak{}", random.below(RESOURCES));
        let lock = client.lock(name).ttl(ms(2000)).wait(ms(random.below(20)));
        match random.below(8) {
            0 => drop(held.pop()),
            1 => held.clear(),
            2 => drop(client.lock("soak-slots").slots(3).try_acquire()),
            3 => drop(client.observe("soak0")),
            4 => drop(lock.on_lost(|_| ()).acquire()),
            5 => drop(lock.shared().acquire().map(|lock| lock.release())),
            _ => held.extend(lock.acquire()),
        }
    }
    if random.below(4) == 0 {
        fork(client, held);
    }
}

fn fork(client: Client, held: Vec<libredlock::Lock>) {
    // SAFETY: the child drops what it got, in an order that the parent does not use, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            drop(client);
            drop(held);
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        assert_eq!(status, 0, "a child crashed");
    }
}

async fn await_some(client: AsyncClient, mut random: Random, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let name = format!("soak{}", random.below(RESOURCES));
        let lock = client.lock(name).ttl(ms(2000)).wait(ms(50));
        let patience = ms(random.below(30)) / 10;
        match random.below(4) {
            0 => drop(tokio::time::timeout(patience, lock.acquire()).await),
            1 => drop(lock.acquire().await),
            _ => {
                if let Ok(lock) = lock.acquire().await {
                    let _ = tokio::time::timeout(patience, lock.lost()).await;
                    let _ = tokio::time::timeout(patience, lock.release()).await;
                }
            }
        }
    }
}

fn tasks(servers: &Servers, random: &mut Random) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::open_async(servers.nodes().as_str()).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let mut running = Vec::new();
        for _ in 0..16 {
            let random = Random(random.below(u64::MAX) + 1);
            running.push(tokio::spawn(await_some(
                client.clone(),
                random,
                stop.clone(),
            )));
        }
        tokio::time::sleep(ms(100)).await;
        stop.store(true, Ordering::Relaxed);
        running.pop().unwrap().abort();
        if random.below(2) == 0 {
            for task in running {
                task.await.unwrap();
            }
        }
    });
}

/// In KiB; and file descriptors.
fn used() -> (u64, usize) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kib = line.trim().trim_end_matches(" kB").parse().unwrap();
    (kib, fs::read_dir("/proc/self/fd").unwrap().count())
}

#[test]
fn nothing_leaks() {
    let seconds = env::var("REDLOCK_SOAK_S").map_or(4, |text| text.parse().expect("seconds"));
    let seed = Instant::now().elapsed().as_nanos() as u64 + u64::from(std::process::id());
    println!("seed {seed}");
    let (servers, began) = (Servers::start(3), Instant::now());
    let mut random = Random(seed + 1);
    let mut before = None;
    while before.is_none() || began.elapsed().as_secs() < seconds {
        block(&servers, &mut random);
        tasks(&servers, &mut random);
        if before.is_none() && began.elapsed().as_secs() >= seconds / 3 {
            before = Some(used());
        }
    }
    thread::sleep(ms(100));
    let (before, after) = (before.unwrap(), used());
    assert!(
        after.1 <= before.1,
        "{} file descriptors were {}",
        after.1,
        before.1
    );
    assert!(
        after.0 <= before.0 + KIB_MAX,
        "{} KiB were {}",
        after.0,
        before.0
    );
    until("release", || {
        (0..RESOURCES).all(|number| servers.holding(&format!("soak{number}")) == 0)
    });
}
