// SPDX-License-Identifier: BSD-2-Clause

//! Real servers for the tests: `redis-server`, each on a socket of its own.
#![allow(dead_code)]

use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, io::Read, io::Write, mem, process, ptr, thread};

use libredlock_sys as sys;

pub struct Servers {
    folder: PathBuf,
    running: Vec<Child>,
}

impl Servers {
    pub fn start(count: usize) -> Servers {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("redlock-rust-{}-{number}", process::id()));
        fs::create_dir(&folder).unwrap();
        let mut servers = Servers {
            folder,
            running: Vec::new(),
        };
        for node in 0..count {
            let mut command = Command::new("redis-server");
            command.args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ]);
            command
                .arg(servers.socket(node))
                .arg("--dir")
                .arg(&servers.folder)
                .stdout(Stdio::null());
            // SAFETY: prctl(2) is safe after fork(2).
            unsafe {
                command.pre_exec(|| {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    Ok(())
                })
            };
            servers.running.push(command.spawn().expect("redis-server"));
        }
        until("servers", || {
            (0..count).all(|node| UnixStream::connect(servers.socket(node)).is_ok())
        });
        servers
    }

    /// The same with a record on each.
    pub fn guarded(count: usize) -> Servers {
        let servers = Servers::start(count);
        let nodes = std::ffi::CString::new(servers.nodes()).unwrap();
        // SAFETY: as the headers say.
        unsafe {
            let mut options: sys::redlock_quorum_options = mem::zeroed();
            sys::redlock_quorum_options_fill(&mut options, mem::size_of_val(&options));
            options.never_used = 1;
            let mut guarded: sys::redlock_client_options = mem::zeroed();
            sys::redlock_client_options_fill(&mut guarded, mem::size_of_val(&guarded));
            guarded.mode = sys::REDLOCK_MODE_GUARDED;
            let (mut client, mut error) = (ptr::null_mut(), mem::zeroed::<sys::redlock_error>());
            assert_eq!(
                sys::redlock_client_open(nodes.as_ptr(), &guarded, &mut client, ptr::null_mut()),
                0
            );
            sys::redlock_client_wait_ready(client, 5000); // without records, none votes
            let result = sys::redlock_quorum_init(client, &options, &mut error);
            assert_eq!(
                result,
                0,
                "{:?}",
                std::ffi::CStr::from_ptr(error.text.as_ptr())
            );
            sys::redlock_client_free(client);
        }
        servers
    }

    fn socket(&self, node: usize) -> PathBuf {
        self.folder.join(format!("{node}.sock"))
    }

    pub fn nodes(&self) -> String {
        let url = |node| format!("unix://{}", self.socket(node).display());
        (0..self.running.len())
            .map(url)
            .collect::<Vec<_>>()
            .join(",")
    }

    pub fn kill(&mut self, node: usize) {
        self.running[node].kill().unwrap();
        self.running[node].wait().unwrap();
    }

    /// The answer of a node to an inline command.
    pub fn ask(&self, node: usize, command: &str) -> String {
        let mut stream = UnixStream::connect(self.socket(node)).unwrap();
        write!(stream, "{command}\r\nQUIT\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// How many connections a node has, but for the one that asks.
    pub fn clients(&self, node: usize) -> usize {
        let all = self.ask(node, "CLIENT LIST");
        all.lines().filter(|line| line.starts_with("id=")).count() - 1
    }

    /// How many of the running nodes have the key.
    pub fn holding(&self, resource: &str) -> usize {
        let exists = format!("EXISTS {resource}");
        (0..self.running.len())
            .filter(|&node| self.ask(node, &exists).starts_with(":1"))
            .count()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.running {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < end, "{what}: not in 10 s");
        thread::sleep(Duration::from_millis(5));
    }
}

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
