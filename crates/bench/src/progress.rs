//! One line on stderr that says what is going on; nothing if that is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub fn new(phases: u64) -> Progress {
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {prefix} {wide_msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(phases).with_style(style);
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Progress { bar }
    }

    pub fn phase(&self, name: &str) {
        self.bar.inc(1);
        self.bar.set_prefix(name.to_owned());
        self.bar.set_message("");
    }

    /// How far the phase is.
    pub fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// A line that stays.
    pub fn warn(&self, what: &str) {
        self.bar.suspend(|| {
            #[expect(clippy::print_stderr, reason = "whoever measures must see it, terminal or not")]
            {
                eprintln!("{what}");
            }
        });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
