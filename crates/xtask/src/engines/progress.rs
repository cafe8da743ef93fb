//! What the user sees while engines are installed and started: lines, and on a terminal one that changes below them.

use std::{
    io::{IsTerminal as _, Write as _},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

pub struct Progress {
    is_terminal: bool,
    start: Instant,
    /// What is being waited for.
    pending: Mutex<Vec<String>>,
}

impl Progress {
    pub fn new() -> Progress {
        Progress { is_terminal: std::io::stderr().is_terminal(), start: Instant::now(), pending: Mutex::default() }
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        let pending = self.pending();
        self.draw(&format!("    {line}\n"));
        self.draw_pending(&pending);
    }

    /// Something that takes a while begins; it ends with [`Progress::done`].
    pub fn begin(&self, what: &str) {
        self.pending().push(what.to_owned());
    }

    pub fn done(&self, what: &str, line: &str) {
        self.pending().retain(|pending| pending != what);
        self.say(&format!("{line} ({:.1} s)", self.start.elapsed().as_secs_f64()));
    }

    /// Shows that time passes; nothing but on a terminal.
    pub fn tick(&self) {
        self.draw_pending(&self.pending());
    }

    /// Shows how far something has come; nothing but on a terminal.
    pub fn show(&self, line: &str) {
        if self.is_terminal {
            self.draw(&format!("    {line}"));
        }
    }

    fn draw_pending(&self, pending: &[String]) {
        if !pending.is_empty() {
            self.show(&format!("… {} ({:.0} s)", pending.join(", "), self.start.elapsed().as_secs_f64()));
        }
    }

    /// On a terminal, the text takes the place of the line that changes.
    fn draw(&self, text: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        let mut stderr = std::io::stderr().lock();
        // A terminal that went away is no reason to stop.
        let _ = write!(stderr, "{clear}{text}").and_then(|()| stderr.flush());
    }

    fn pending(&self) -> MutexGuard<'_, Vec<String>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_terminal {
            self.draw("");
        }
    }
}
