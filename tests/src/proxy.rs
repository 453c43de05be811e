//! A wire between an agent and its coordinator that can be cut, silenced and slowed: bytes go through unchanged until
//! the test says otherwise. Understands nothing of what it carries.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
struct State {
    /// No new connection is let through.
    closed: AtomicBool,
    /// Bytes are kept back, as when packets are lost: nobody is told.
    silent: AtomicBool,
    /// Milliseconds that each piece is late.
    late: AtomicU64,
    ended: AtomicBool,
    connections: AtomicU64,
    open: Mutex<Vec<Wire>>,
}

/// One connection: the caller's end, and the coordinator's.
struct Wire {
    near: TcpStream,
    far: TcpStream,
    /// The coordinator's end stays open although the caller's is gone.
    half: Arc<AtomicBool>,
}

pub struct Proxy {
    state: Arc<State>,
    pub url: String,
}

const LOOK: Duration = Duration::from_millis(5);

impl Proxy {
    /// A wire to the coordinator at `url`.
    #[must_use]
    pub fn to(url: &str) -> Self {
        let target: SocketAddr = url
            .trim_start_matches("http://")
            .parse()
            .expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("a listener");
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || accept(&listener, target, &shared));
        Self {
            state,
            url: format!("http://{own}"),
        }
    }

    /// Breaks every connection; new ones are refused until [`Proxy::mend`].
    pub fn cut(&self) {
        self.state.closed.store(true, Ordering::SeqCst);
        self.break_connections();
    }

    /// Breaks every connection once: the next dial goes through.
    pub fn break_connections(&self) {
        for wire in self.wires().drain(..) {
            // The other end may be gone already.
            let _ = wire.near.shutdown(Shutdown::Both);
            let _ = wire.far.shutdown(Shutdown::Both);
        }
    }

    /// Breaks every connection, but the coordinator does not learn of it: it hears nothing more, as from a host that
    /// has lost its power. What dials in next finds the earlier session still open.
    pub fn break_callers_end(&self) {
        for wire in self.wires().iter() {
            wire.half.store(true, Ordering::SeqCst);
            let _ = wire.near.shutdown(Shutdown::Both);
        }
    }

    fn wires(&self) -> MutexGuard<'_, Vec<Wire>> {
        self.state
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn mend(&self) {
        self.state.closed.store(false, Ordering::SeqCst);
        self.state.silent.store(false, Ordering::SeqCst);
    }

    /// Keeps all bytes back without a word.
    pub fn silence(&self) {
        self.state.silent.store(true, Ordering::SeqCst);
    }

    /// Every piece arrives so much later.
    pub fn delay(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).expect("a short time");
        self.state.late.store(millis, Ordering::SeqCst);
    }

    /// How many connections were let through so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        self.cut();
    }
}

fn accept(listener: &TcpListener, target: SocketAddr, state: &Arc<State>) {
    while !state.ended.load(Ordering::SeqCst) {
        let Ok((near, _)) = listener.accept() else {
            std::thread::sleep(LOOK);
            continue;
        };
        // Dropped: the caller sees its connection closed at once.
        if state.closed.load(Ordering::SeqCst) {
            continue;
        }
        if let Ok(far) = TcpStream::connect(target) {
            let _ = carry(&near, &far, state);
        }
    }
}

fn carry(near: &TcpStream, far: &TcpStream, state: &Arc<State>) -> std::io::Result<()> {
    near.set_nonblocking(false)?;
    for stream in [near, far] {
        stream.set_nodelay(true)?;
    }
    state.connections.fetch_add(1, Ordering::SeqCst);
    let half = Arc::<AtomicBool>::default();
    let wire = Wire {
        near: near.try_clone()?,
        far: far.try_clone()?,
        half: Arc::clone(&half),
    };
    state
        .open
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(wire);
    for (from, to) in [
        (near.try_clone()?, far.try_clone()?),
        (far.try_clone()?, near.try_clone()?),
    ] {
        let (state, half) = (Arc::clone(state), Arc::clone(&half));
        std::thread::spawn(move || pump(from, to, &state, &half));
    }
    Ok(())
}

fn pump(mut from: TcpStream, mut to: TcpStream, state: &State, half: &AtomicBool) {
    let mut piece = [0; 32 * 1024];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        std::thread::sleep(Duration::from_millis(state.late.load(Ordering::SeqCst)));
        while state.silent.load(Ordering::SeqCst) && !state.ended.load(Ordering::SeqCst) {
            std::thread::sleep(LOOK);
        }
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    if !half.load(Ordering::SeqCst) {
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
