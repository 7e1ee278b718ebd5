// SPDX-License-Identifier: BSD-2-Clause

//! rslock as a peer: its defaults, on tokio's default runtime. ../README.md has the protocol.
//! usage: peer URL...

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use rslock::{Lock, LockError, LockManager};

/// What must be left of a lock before the counter is touched: validity_time is there to be read.
const LEAST_LEFT_MS: usize = 100;

struct Peer {
    manager: LockManager,
    /// What the last acquisition that went well returned, also when it is over.
    held: HashMap<String, Lock>,
}

fn milliseconds(word: &str) -> Duration {
    Duration::from_millis(word.parse().expect("milliseconds"))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn why(error: &LockError) -> String {
    format!("{{\"ok\": false, \"why\": {:?}}}", error.to_string())
}

/// Not atomic on purpose: only the lock keeps others out between the reading and the writing.
async fn add_one(file: &str) {
    let number: i64 = std::fs::read_to_string(file).expect("the counter").trim().parse().expect("a number");
    tokio::time::sleep(Duration::from_millis(2)).await;
    std::fs::write(file, (number + 1).to_string()).expect("the counter");
}

impl Peer {
    /// Its tries may be over before the wait is: then it asks again.
    async fn lock_within(&self, resource: &str, ttl: Duration, wait: Duration) -> Result<Lock, LockError> {
        let mut manager = self.manager.clone();
        if wait.is_zero() {
            manager.set_retry(1, Duration::from_millis(200));
        }
        let ends = Instant::now() + wait;
        loop {
            match manager.lock(resource, ttl).await {
                Err(_) if Instant::now() < ends => continue,
                outcome => return outcome,
            }
        }
    }

    async fn acquire(&mut self, resource: &str, ttl: Duration, wait: Duration) -> String {
        match self.lock_within(resource, ttl, wait).await {
            Err(error) => why(&error),
            Ok(lock) => {
                let token = hexadecimal(&lock.val);
                self.held.insert(resource.to_string(), lock);
                format!("{{\"ok\": true, \"token\": \"{token}\"}}")
            }
        }
    }

    async fn extend(&mut self, resource: &str, ttl: Duration) -> String {
        let Some(lock) = self.held.get(resource) else {
            return "{\"ok\": false, \"why\": \"never acquired\"}".to_string();
        };
        match self.manager.extend(lock, ttl).await {
            Err(error) => why(&error),
            Ok(longer) => {
                self.held.insert(resource.to_string(), longer);
                "{\"ok\": true}".to_string()
            }
        }
    }

    /// It returns nothing: whether the lock was still there cannot be told.
    async fn release(&self, resource: &str) -> String {
        let Some(lock) = self.held.get(resource) else {
            return "{\"ok\": false, \"why\": \"never acquired\"}".to_string();
        };
        self.manager.unlock(lock).await;
        "{\"ok\": true}".to_string()
    }

    /// Between its turns it does something else for a while, as ours do.
    async fn count(&self, resource: &str, file: &str, open: Duration, ttl: Duration) -> String {
        let (mut turns, mut failed) = (0, 0);
        let closes = Instant::now() + open;
        while Instant::now() < closes {
            let Ok(lock) = self.manager.lock(resource, ttl).await else {
                failed += 1;
                continue;
            };
            if lock.validity_time < LEAST_LEFT_MS {
                failed += 1;
            } else {
                add_one(file).await;
                turns += 1;
            }
            self.manager.unlock(&lock).await;
            let pause = 10 + u64::from(lock.val[0]) % 60; // random enough
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        format!("{{\"turns\": {turns}, \"failed\": {failed}}}")
    }

    async fn obey(&mut self, words: &[&str]) -> String {
        match words {
            ["acquire", resource, ttl, wait] => self.acquire(resource, milliseconds(ttl), milliseconds(wait)).await,
            ["extend", resource, ttl] => self.extend(resource, milliseconds(ttl)).await,
            ["release", resource] => self.release(resource).await,
            ["count", resource, file, seconds, ttl] => {
                let open = Duration::from_secs_f64(seconds.parse().expect("seconds"));
                self.count(resource, file, open, milliseconds(ttl)).await
            }
            _ => format!("{{\"error\": {:?}}}", words.join(" ")),
        }
    }
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("standard output");
}

#[tokio::main]
async fn main() {
    let urls: Vec<String> = std::env::args().skip(1).collect();
    let manager = LockManager::new(urls);
    let mut peer = Peer { manager, held: HashMap::new() };
    say(&format!(
        "{{\"ready\": true, \"name\": \"rslock\", \"version\": \"{}\", \"key\": \"R\", \
         \"token\": \"20 random bytes, told here in hexadecimal\", \"defaults\": {{\"tries\": 3, \
         \"delay_ms\": \"0 to 200\", \"drift\": \"1 % + 2 ms\", \"node_timeout\": \"redis-rs: 500 ms\"}}}}",
        env!("RSLOCK_VERSION")
    ));
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input");
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            [] => continue,
            ["quit"] => break,
            words => say(&peer.obey(words).await),
        }
    }
}
