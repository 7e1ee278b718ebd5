// SPDX-License-Identifier: BSD-2-Clause

//! The locks of tasks, on real servers.
#![cfg(feature = "tokio")]

mod common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::time::{Duration, Instant};

use common::{ms, until, Servers};
use libredlock::{AsyncClient, AsyncLock, ClientOptions, ErrorKind, Leader};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

async fn open(servers: &Servers, count: usize) -> AsyncClient {
    open_patient(servers, count, ms(250)).await
}

/// The machine may be busy.
async fn open_patient(servers: &Servers, count: usize, node_timeout: Duration) -> AsyncClient {
    let options = ClientOptions::new().node_timeout(node_timeout);
    let client = options.open_async(servers.nodes().as_str()).unwrap();
    assert_eq!(client.wait_ready(ms(5000)).await.unwrap(), count);
    client
}

#[tokio::test]
async fn a_lock_excludes_and_is_released() {
    let servers = Servers::start(3);
    let client = open(&servers, 3).await;
    let lock = client
        .lock("nightly")
        .ttl(ms(5000))
        .acquire()
        .await
        .unwrap();
    assert!(lock.validity() > ms(4000));
    let refused = client.lock("nightly").try_acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Held);
    lock.extend(ms(9000)).await.unwrap();
    assert!(lock.validity() > ms(8000));
    lock.release().await.unwrap();
    drop(client.lock("nightly").acquire().await.unwrap());
    until("release by drop", || servers.holding("nightly") == 0);
}

#[tokio::test]
async fn a_dropped_future_leaves_nothing_locked() {
    let servers = Servers::start(3);
    let client = open(&servers, 3).await;
    for wait in 0..40 {
        let acquiring = client.lock("nightly").acquire();
        let _ = timeout(ms(wait) / 20, acquiring).await.map(drop);
    }
    until("release", || servers.holding("nightly") == 0);
    let held = client.lock("nightly").acquire().await.unwrap();
    let waiting = timeout(ms(300), client.lock("nightly").acquire()).await;
    assert!(waiting.is_err());
    held.release().await.unwrap();
    tokio::time::sleep(ms(300)).await;
    assert_eq!(servers.holding("nightly"), 0);
    let released = client.lock("nightly").acquire().await.unwrap().release();
    let _ = timeout(ms(0), released).await; // it may have ended at once
    until("release of the dropped release", || {
        servers.holding("nightly") == 0
    });
}

#[tokio::test]
async fn a_loss_ends_the_work() {
    let mut servers = Servers::start(5);
    let client = open(&servers, 5).await;
    let lock = client
        .lock("nightly")
        .ttl(ms(2000))
        .acquire()
        .await
        .unwrap();
    servers.kill(0);
    servers.kill(1);
    assert!(
        timeout(ms(3000), lock.lost()).await.is_err(),
        "two of five are a minority"
    );
    servers.kill(2);
    let end = Instant::now() + lock.validity();
    let (one, two) = timeout(ms(4000), async { tokio::join!(lock.lost(), lock.lost()) })
        .await
        .unwrap();
    assert!(
        Instant::now() < end,
        "the loss came after the end of validity"
    );
    assert_eq!((one.kind(), &one), (ErrorKind::Lost, &two));
    assert_eq!(lock.ensure().unwrap_err(), lock.lost().await);
}

#[tokio::test]
async fn renewals_do_not_need_the_runtime() {
    let servers = Servers::start(3);
    let client = open(&servers, 3).await;
    let lock = client.lock("nightly").ttl(ms(300)).acquire().await.unwrap();
    std::thread::sleep(ms(1000)); // a task that blocks
    lock.ensure().unwrap();
    lock.release().await.unwrap();
}

#[tokio::test]
async fn observers_see_who_leads() {
    let servers = Servers::guarded(3);
    let client = open(&servers, 3).await;
    let mut observer = client.observe("scheduler").unwrap();
    let leader = client.elect("scheduler", "node 7").acquire().await.unwrap();
    let term = loop {
        match timeout(ms(5000), observer.next()).await.unwrap() {
            Leader::Known { term, .. } => break term,
            _ => continue,
        }
    };
    assert_eq!(Some(term), leader.fence());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_holder_at_a_time() {
    let servers = Servers::start(3);
    let client = open_patient(&servers, 3, ms(5000)).await;
    let (holders, turns) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let (client, holders, turns) = (client.clone(), holders.clone(), turns.clone());
            tokio::spawn(async move {
                for _ in 0..5 {
                    let lock = client.lock("nightly").acquire().await.unwrap();
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    holders.fetch_sub(1, Ordering::SeqCst);
                    turns.fetch_add(1, Ordering::SeqCst);
                    lock.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(turns.load(Ordering::SeqCst), 160);
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// As in a suite of #[tokio::test]: the client is older than each runtime.
#[test]
fn a_client_belongs_to_no_runtime() {
    let mut servers = Servers::start(3);
    let options = ClientOptions::new().node_timeout(ms(250));
    let client = options.open_async(servers.nodes().as_str()).unwrap();
    let (sender, reported) = mpsc::channel();
    let lock = client.lock("held").ttl(ms(2000));
    let acquiring = lock.on_lost(move |why| sender.send(why.clone()).unwrap());
    let held = runtime().block_on(async {
        assert_eq!(client.wait_ready(ms(5000)).await.unwrap(), 3);
        acquiring.acquire().await.unwrap()
    });
    let idle = runtime(); // tasks that nobody runs do not get in the way of others
    idle.spawn(client.lock("held").acquire());
    idle.block_on(tokio::task::yield_now());
    runtime().block_on(async {
        let lock = timeout(ms(5000), client.lock("other").acquire()).await;
        lock.unwrap().unwrap().release().await.unwrap();
        let wanted = client.lock("held").wait(ms(300)).acquire();
        let refused = timeout(ms(5000), wanted).await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Held);
        held.extend(ms(3000)).await.unwrap();
        servers.kill(0);
        servers.kill(1);
        let lost = timeout(ms(5000), held.lost()).await.unwrap();
        assert_eq!(reported.recv_timeout(ms(5000)).unwrap(), lost);
        let released = timeout(ms(5000), held.release()).await.unwrap();
        assert!(released.is_err());
    });
}

#[test]
fn on_lost_may_drop_the_last_lock() {
    let servers = Servers::start(1);
    let slot: Arc<Mutex<Option<AsyncLock>>> = Arc::default();
    let (sender, lost) = mpsc::channel();
    let theirs = slot.clone();
    runtime().block_on(async {
        let client = open(&servers, 1).await;
        let lock = client.lock("nightly").ttl(ms(300)).on_lost(move |why| {
            let before = why.to_string();
            drop(theirs.lock().unwrap().take());
            sender.send((before, why.to_string())).unwrap();
        });
        *slot.lock().unwrap() = Some(lock.acquire().await.unwrap());
    });
    servers.ask(0, "SET nightly another");
    let (before, after) = lost.recv_timeout(ms(5000)).unwrap();
    assert_eq!(before, after);
    until("the end of the client", || servers.clients(0) == 0);
}

/// The runtime ends while locks are held and wanted: nothing waits, and what was held is released.
#[test]
fn the_runtime_may_end_first() {
    let servers = Servers::start(3);
    let began = Instant::now();
    let first = runtime();
    let (client, lock) = first.block_on(async {
        let client = open(&servers, 3).await;
        let lock = client.lock("nightly").acquire().await.unwrap();
        let waiting = client.lock("nightly").acquire();
        tokio::spawn(waiting);
        tokio::task::yield_now().await;
        (client, lock)
    });
    drop(first);
    lock.ensure().unwrap();
    drop(client);
    drop(lock);
    until("release", || servers.holding("nightly") == 0);
    runtime().block_on(async {
        let client = open(&servers, 3).await;
        let _held = client.lock("nightly").acquire().await.unwrap();
    });
    until("release", || servers.holding("nightly") == 0);
    assert!(began.elapsed() < ms(5000));
}
