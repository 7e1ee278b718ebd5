// SPDX-License-Identifier: BSD-2-Clause

use std::ffi::{c_char, CString};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, mem, ptr};

use libredlock_sys as sys;

use crate::callback::outside;
use crate::error::{Error, Result};
use crate::lock::LockBuilder;
use crate::Blocking;

/// How strong a lock is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Classic until a node shows a record, then guarded for good.
    #[default]
    Auto,
    /// Redlock as other clients know it.
    Classic,
    /// Nodes carry a record, and each lock has a fencing token.
    Guarded,
}

/// The client of C. A client, its locks and its observers share one.
pub(crate) struct Handle {
    client: Raw,
    #[cfg(feature = "tokio")]
    pub(crate) desk: Option<crate::tasks::Desk>, // of a client for tasks
}

struct Raw(*mut sys::redlock_client);

// SAFETY: with the service thread, any thread may call any function.
unsafe impl Send for Raw {}
unsafe impl Sync for Raw {}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: its locks and observers hold the handle: they are gone. This is no callback.
        unsafe { sys::redlock_client_free(self.0) }
    }
}

impl Handle {
    pub(crate) fn raw(&self) -> *mut sys::redlock_client {
        self.client.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let client = mem::replace(&mut self.client, Raw(ptr::null_mut()));
        // To free a client may take a node timeout, for which no task waits.
        #[cfg(feature = "tokio")]
        if self.desk.is_some() {
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn_blocking(move || drop(client));
                return;
            }
        }
        outside(move || drop(client));
    }
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident($kind:ty) => $field:ident = $value:expr;)*) => {
        $($(#[$doc])*
        pub fn $name(mut self, $name: $kind) -> Self {
            self.raw.$field = $value;
            self
        })*
    };
}
pub(crate) use settings;

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident => $field:ident;)*) => {
        $($(#[$doc])*
        pub fn $name(mut self, $name: impl Into<Vec<u8>>) -> Self {
            self.texts.push((stringify!($name), |raw, text| raw.$field = text, $name.into()));
            self
        })*
    };
}

type SetText = fn(&mut sys::redlock_client_options, *const c_char);

/// The settings of a client, each with the library's default.
///
/// ```no_run
/// use libredlock::{ClientOptions, Mode};
///
/// # fn main() -> libredlock::Result<()> {
/// let client = ClientOptions::new().key_prefix("jobs:").mode(Mode::Guarded).open("redis://db1,redis://db2,redis://db3")?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ClientOptions {
    raw: sys::redlock_client_options,
    texts: Vec<(&'static str, SetText, Vec<u8>)>,
}

// SAFETY: the struct of C holds only numbers here; its pointers are set in open_handle().
unsafe impl Send for ClientOptions {}
unsafe impl Sync for ClientOptions {}

impl ClientOptions {
    /// The library's defaults.
    pub fn new() -> ClientOptions {
        // SAFETY: all fields may be zero, and the function fills them.
        let raw = unsafe {
            let mut raw: sys::redlock_client_options = mem::zeroed();
            sys::redlock_client_options_fill(&mut raw, mem::size_of_val(&raw));
            raw
        };
        ClientOptions {
            raw,
            texts: Vec::new(),
        }
    }

    settings! {
        /// How long a try waits for a node.
        node_timeout(Duration) => node_timeout_ms = millis(node_timeout);
        /// How long connect, TLS and AUTH may take together.
        connect_timeout(Duration) => connect_timeout_ms = millis(connect_timeout);
        /// How strong a lock is.
        mode(Mode) => mode = match mode {
            Mode::Auto => sys::REDLOCK_MODE_AUTO,
            Mode::Classic => sys::REDLOCK_MODE_CLASSIC,
            Mode::Guarded => sys::REDLOCK_MODE_GUARDED,
        };
        /// Guarded: ask a majority once more before a lock counts.
        confirm(bool) => confirm = confirm.into();
        /// Guarded: bring nodes that lost their data back.
        recover(bool) => recover = recover.into();
        /// Guarded: masters with replicas may vote.
        allow_replicas(bool) => allow_replicas = allow_replicas.into();
    }

    texts! {
        /// Key = prefix + resource.
        key_prefix => key_prefix;
        /// Guarded: the quorum's id; no node of another quorum counts.
        quorum => quorum;
        /// The login at nodes whose URL has no password.
        user => user;
        /// A file whose first line is the password; it is read for each connection.
        password_file => password_file;
        /// PEM; by default the system's store.
        tls_ca_file => tls_ca_file;
        /// PEM, the client's certificate.
        tls_cert_file => tls_cert_file;
        /// PEM, the key of that certificate.
        tls_key_file => tls_key_file;
        /// The name to send and to verify.
        tls_server_name => tls_server_name;
    }

    /// Opens a blocking client, see [`Client::open`].
    pub fn open<'n>(&self, nodes: impl Into<Option<&'n str>>) -> Result<Client> {
        Ok(Client::of(Arc::new(self.open_handle(nodes.into())?)))
    }

    pub(crate) fn open_handle(&self, nodes: Option<&str>) -> Result<Handle> {
        let nodes = nodes.map(|nodes| c_text("nodes", nodes)).transpose()?;
        let nodes_text = nodes.as_ref().map_or(ptr::null(), |nodes| nodes.as_ptr());
        let mut raw = self.raw;
        let mut kept = Vec::new();
        for (name, set, text) in &self.texts {
            let text = c_text(name, text.clone())?;
            set(&mut raw, text.as_ptr());
            kept.push(text);
        }
        let mut client = ptr::null_mut();
        // SAFETY: the texts live during the call, which copies them.
        let (result, error) = unsafe {
            let mut error: sys::redlock_error = mem::zeroed();
            let result = sys::redlock_client_open(nodes_text, &raw, &mut client, &mut error);
            (result, error)
        };
        if result != sys::REDLOCK_OK {
            return Err(Error::filled(result, &error));
        }
        Ok(Handle {
            client: Raw(client),
            #[cfg(feature = "tokio")]
            desk: None,
        })
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions::new()
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("ClientOptions").finish_non_exhaustive()
    }
}

/// A client of 1 to 15 nodes. Clones share its connections, and so do all threads.
///
/// `Client` blocks; `AsyncClient` (feature `tokio`) is awaited. Its locks and observers keep it
/// open.
pub struct Client<M = Blocking> {
    pub(crate) handle: Arc<Handle>,
    mode: PhantomData<fn() -> M>,
}

impl<M> Clone for Client<M> {
    fn clone(&self) -> Self {
        Client::of(self.handle.clone())
    }
}

impl<M> fmt::Debug for Client<M> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Client").finish_non_exhaustive()
    }
}

impl<M> Client<M> {
    pub(crate) fn of(handle: Arc<Handle>) -> Self {
        Client {
            handle,
            mode: PhantomData,
        }
    }

    /// A lock on one resource, which is not acquired yet.
    pub fn lock(&self, resource: impl AsRef<[u8]>) -> LockBuilder<M> {
        self.lock_all([resource])
    }

    /// A lock on several resources, all or nothing.
    pub fn lock_all<R: AsRef<[u8]>>(
        &self,
        resources: impl IntoIterator<Item = R>,
    ) -> LockBuilder<M> {
        let resources = resources
            .into_iter()
            .map(|each| each.as_ref().to_vec())
            .collect();
        LockBuilder::new(self.clone(), resources)
    }

    /// A campaign for a guarded lock whose holder is a leader: observers see `id`, and
    /// [`fence()`](crate::Lock::fence) is the term.
    pub fn elect(&self, resource: impl AsRef<[u8]>, id: impl Into<Vec<u8>>) -> LockBuilder<M> {
        self.lock(resource).owner(id).leader()
    }
}

impl Client {
    /// Opens a client on `"redis://[user:pass@]host[:port][/db]"`, `"rediss://..."` (TLS) or
    /// `"unix:///path[?db=n]"`, separated by commas or white space; `None`: on those of
    /// `REDLOCK_NODES` or `/etc/redlock.conf`, as the commands do. It returns at once; connections
    /// come up in the background.
    pub fn open<'n>(nodes: impl Into<Option<&'n str>>) -> Result<Client> {
        ClientOptions::new().open(nodes)
    }

    /// Waits until every node is connected or its last try to connect has failed. Returns the
    /// number of nodes that are ready.
    pub fn wait_ready(&self, wait: Duration) -> Result<usize> {
        self.handle.wait_ready(wait)
    }
}

impl Handle {
    pub(crate) fn wait_ready(&self, wait: Duration) -> Result<usize> {
        // SAFETY: the client lives.
        let ready = unsafe { sys::redlock_client_wait_ready(self.raw(), millis(wait)) };
        usize::try_from(ready).map_err(|_| Error::plain(ready))
    }
}

fn c_text(name: &str, text: impl Into<Vec<u8>>) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::new(sys::REDLOCK_BAD_ARGUMENT, format!("{name} contains a NUL")))
}

/// Rounded up, so that a short time does not become none.
pub(crate) fn millis(duration: Duration) -> i64 {
    duration
        .as_nanos()
        .div_ceil(1_000_000)
        .try_into()
        .unwrap_or(i64::MAX)
}

pub(crate) fn duration(ms: i64) -> Duration {
    Duration::from_millis(ms.max(0).unsigned_abs())
}

const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Client>();
    shared::<ClientOptions>();
    shared::<crate::Lock>();
    shared::<crate::Observer>();
};
