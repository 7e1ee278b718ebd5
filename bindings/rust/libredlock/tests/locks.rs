// SPDX-License-Identifier: BSD-2-Clause

//! The blocking locks, on real servers.

mod common;

use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::Instant;

use common::{ms, until, Servers};
use libredlock::{Client, ClientOptions, ErrorKind, Leader, Lock, Mode};

fn open(servers: &Servers, count: usize) -> Client {
    let options = ClientOptions::new().node_timeout(ms(250)); // the machine may be busy
    let client = options.open(servers.nodes().as_str()).unwrap();
    assert_eq!(client.wait_ready(ms(5000)).unwrap(), count);
    client
}

#[test]
fn a_lock_excludes_and_is_released() {
    let servers = Servers::start(3);
    let (client, other) = (open(&servers, 3), open(&servers, 3));
    let lock = client
        .lock("nightly")
        .ttl(ms(5000))
        .owner("db7")
        .acquire()
        .unwrap();
    assert!(lock.validity() > ms(4000) && lock.validity() <= ms(5000));
    assert_eq!(lock.fence(), None);
    let token = String::from_utf8(lock.token()).unwrap();
    assert_eq!((token.len(), &token[40..]), (44, ":db7"));
    assert!(servers.ask(0, "GET nightly").contains(&token));
    lock.ensure().unwrap();
    let refused = other.lock("nightly").try_acquire().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Held);
    assert!(
        refused.sentence().starts_with("nightly: held by another"),
        "{refused}"
    );
    lock.extend(ms(9000)).unwrap();
    assert!(lock.validity() > ms(8000));
    lock.release().unwrap();
    drop(other.lock("nightly").try_acquire().unwrap());
    until("release by drop", || servers.holding("nightly") == 0);
    drop(client.lock_all(["a", "b"]).acquire().unwrap());
    until("release of both", || {
        servers.holding("a") + servers.holding("b") == 0
    });
}

#[test]
fn shared_locks_and_slots() {
    let servers = Servers::start(3);
    let client = open(&servers, 3);
    let readers: Vec<_> = (0..3)
        .map(|_| client.lock("table").shared().try_acquire().unwrap())
        .collect();
    assert_eq!(
        client.lock("table").try_acquire().unwrap_err().kind(),
        ErrorKind::Held
    );
    drop(readers);
    client
        .lock("table")
        .wait(ms(3000))
        .acquire()
        .unwrap()
        .release()
        .unwrap();
    let slot = || client.lock("gpu").slots(2).try_acquire();
    let (one, two) = (slot().unwrap(), slot().unwrap());
    assert_eq!(one.slot().unwrap() + two.slot().unwrap(), 3);
    assert_eq!(slot().unwrap_err().kind(), ErrorKind::Held);
    assert_eq!(
        one.slot(),
        Some(1).filter(|_| two.slot() == Some(2)).or(Some(2))
    );
}

#[test]
fn a_minority_may_fail_and_a_majority_may_not() {
    let mut servers = Servers::start(5);
    let client = open(&servers, 5);
    let (sender, lost) = mpsc::channel();
    let lock = client
        .lock("nightly")
        .ttl(ms(2000))
        .on_lost(move |error| sender.send(error.clone()).unwrap());
    let lock = lock.acquire().unwrap();
    servers.kill(0);
    servers.kill(1);
    thread::sleep(ms(3000));
    lock.ensure().unwrap();
    assert!(lost.try_recv().is_err());
    servers.kill(2);
    let end = Instant::now() + lock.validity();
    let error = lost.recv_timeout(ms(4000)).unwrap();
    assert!(
        Instant::now() < end,
        "the loss came after the end of validity"
    );
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.sentence().contains("nightly: lost: "), "{error}");
    assert_eq!(lock.ensure().unwrap_err(), error);
    assert!(lock.release().is_err());
    let failed = client.lock("nightly").try_acquire().unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::NoQuorum);
    assert!(failed.sentence().contains("3 needed"), "{failed}");
}

/// The message on standard error is the test's own.
#[test]
fn a_panic_stays_on_this_side() {
    let servers = Servers::start(1);
    let client = open(&servers, 1);
    let lock = client
        .lock("nightly")
        .ttl(ms(300))
        .on_lost(|_| panic!("on purpose"))
        .acquire()
        .unwrap();
    servers.ask(0, "SET nightly another");
    until("loss", || lock.ensure().is_err());
    drop(lock);
    client.lock("other").acquire().unwrap().release().unwrap();
}

/// A program that keeps its lock where on_lost finds it; the lock may be the last that keeps its
/// client.
#[test]
fn on_lost_may_drop_the_lock() {
    for is_last in [false, true] {
        let servers = Servers::start(1);
        let client = open(&servers, 1);
        let slot: Arc<Mutex<Option<Lock>>> = Arc::default();
        let (sender, lost) = mpsc::channel();
        let theirs = slot.clone();
        let lock = client.lock("nightly").ttl(ms(300)).on_lost(move |why| {
            let before = why.to_string();
            drop(theirs.lock().unwrap().take());
            sender.send((before, why.to_string())).unwrap();
        });
        *slot.lock().unwrap() = Some(lock.acquire().unwrap());
        let kept = Some(client).filter(|_| !is_last);
        servers.ask(0, "SET nightly another");
        let (before, after) = lost.recv_timeout(ms(5000)).unwrap();
        assert_eq!(before, after);
        assert!(slot.lock().unwrap().is_none());
        drop(kept);
        until("the end of the client", || servers.clients(0) == 0);
    }
}

#[test]
fn guarded_locks_have_fences() {
    let servers = Servers::guarded(3);
    let client = ClientOptions::new()
        .mode(Mode::Guarded)
        .key_prefix("jobs:")
        .open(servers.nodes().as_str())
        .unwrap();
    client.wait_ready(ms(5000)).unwrap();
    let fence = || client.lock("nightly").acquire().unwrap().fence().unwrap();
    let (first, second) = (fence(), fence());
    assert!(first > 0 && second > first);
    let _held = client.lock("nightly").acquire().unwrap();
    assert_eq!(servers.holding("jobs:nightly"), 3);
}

#[test]
fn observers_see_who_leads() {
    let servers = Servers::guarded(3);
    let client = open(&servers, 3);
    let mut observer = client.observe("scheduler").unwrap();
    let leader = client
        .elect("scheduler", "node 7")
        .ttl(ms(5000))
        .acquire()
        .unwrap();
    let seen = loop {
        match observer.next(ms(5000)).expect("a report") {
            Leader::Known { term, id, .. } => break (term, id),
            _ => continue,
        }
    };
    assert_eq!(seen, (leader.fence().unwrap(), b"node 7".to_vec()));
    assert!(observer.leader().sure_for() > ms(3000));
    leader.release().unwrap();
    until("the end of the term", || {
        observer.leader() == Leader::Nobody
    });
}

#[test]
fn mistakes_are_named() {
    let refused = |nodes: &str| Client::open(nodes).unwrap_err();
    assert_eq!(refused("http://x").kind(), ErrorKind::BadArgument);
    assert!(refused("redis://h\0st").sentence().contains("nodes"));
    assert!(!refused("redis://u:secret@host:99999")
        .to_string()
        .contains("secret"));
    let servers = Servers::start(1);
    let client = open(&servers, 1);
    let short = client.lock("nightly").ttl(ms(1)).acquire().unwrap_err();
    assert_eq!((short.kind(), short.result()), (ErrorKind::BadArgument, -6));
    let nameless = [
        client.lock("").acquire().unwrap_err(),
        client.observe("").unwrap_err(),
    ];
    for each in nameless {
        assert_eq!(each.kind(), ErrorKind::BadArgument);
        assert!(each.sentence().starts_with("the resource is empty"));
    }
    for none in [
        client.lock("nightly").slots(0),
        client.lock("nightly").max_hold(ms(0)),
    ] {
        let refused = none.acquire().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BadArgument);
        assert!(refused.sentence().contains(" is 0;"), "{refused}");
    }
    let lock = client.lock("nightly").acquire().unwrap();
    let long = lock.extend(ms(1 << 40)).unwrap_err();
    assert!(long.sentence().contains("ttl_ms is 1099511627776; it must"));
}

/// A child has its parent's client; it can only drop it.
#[test]
fn a_child_opens_its_own() {
    let servers = Servers::start(3);
    let client = open(&servers, 3);
    let lock = client.lock("parent").acquire().unwrap();
    // SAFETY: the child calls only what the library allows, and ends by _exit().
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let refused = client
                .lock("child")
                .try_acquire()
                .err()
                .map(|error| error.kind());
            drop(lock);
            drop(client);
            let own = Client::open(servers.nodes().as_str()).and_then(|own| {
                own.wait_ready(ms(5000))?;
                own.lock("child").acquire()
            });
            libc::_exit(if refused == Some(ErrorKind::Forked) && own.is_ok() {
                7
            } else {
                1
            });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(libc::WEXITSTATUS(status), 7);
    }
    assert_eq!(servers.holding("parent"), 3);
    lock.release().unwrap();
}

/// What a lock or an observer needs lives as long as it does.
#[test]
fn any_order_of_drops() {
    let servers = Servers::guarded(3);
    for order in 0..6 {
        let client = open(&servers, 3);
        let lock = client.lock("order").acquire().unwrap();
        let observer = client.observe("order").unwrap();
        let mut all: Vec<Box<dyn std::any::Any>> =
            vec![Box::new(client), Box::new(lock), Box::new(observer)];
        drop(all.remove(order % 3));
        drop(all.remove(order / 3));
    }
    until("release", || servers.holding("order") == 0);
}
