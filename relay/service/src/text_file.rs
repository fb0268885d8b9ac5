//! Text files that settings name. They are small, and reading one ends, whatever its name leads to.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::mpsc::{RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

/// More than any address has: a file that is larger is another one.
const LARGEST_SECRET: u64 = 64 * 1024;

/// More than any other file of settings has.
const LARGEST: u64 = 1024 * 1024;

/// How long whoever writes into a pipe may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no text. Shows nothing of what the file holds.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The system does not let it be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// A file that must be read again is a pipe or a folder.
    #[error("is no regular file, and so cannot be read again for each connection")]
    Irregular,
    /// It has more than so many bytes.
    #[error("has more than {} KiB", .0 / 1024)]
    TooLarge(u64),
    /// It has nothing but space.
    #[error("is empty")]
    Empty,
    /// It is not UTF-8.
    #[error("is not UTF-8")]
    NotText,
    /// It has a NUL.
    #[error("has a NUL in it, as a file may that is being written")]
    Nul,
    /// Nobody has written into a pipe in time.
    #[error("nobody has written into it within {PATIENCE:?}, and nobody may: it is a pipe or a terminal")]
    Silent,
}

/// The text in a file without the space around it, such as the end of its line. The file can be read again.
pub fn secret(path: &Path) -> Result<String, Unread> {
    // Opening a pipe would wait for somebody to write.
    if !fs::metadata(path)?.is_file() {
        return Err(Unread::Irregular);
    }
    let text = read(path, LARGEST_SECRET)?.trim().to_owned();
    if text.is_empty() {
        return Err(Unread::Empty);
    }
    if text.contains('\0') { Err(Unread::Nul) } else { Ok(text) }
}

/// The text in a file that is read once. It may be a pipe, such as a shell makes of `<(…)`.
pub fn once(path: &Path) -> Result<String, Unread> {
    if fs::metadata(path)?.is_file() {
        return read(path, LARGEST);
    }
    // A thread that waits for ever goes with the process, which ends for want of the file.
    let (done, text) = sync_channel(1);
    let path: PathBuf = path.to_owned();
    thread::Builder::new().name("file".to_owned()).spawn(move || done.send(read(&path, LARGEST)))?;
    text.recv_timeout(PATIENCE).unwrap_or_else(|why| match why {
        RecvTimeoutError::Timeout => Err(Unread::Silent),
        RecvTimeoutError::Disconnected => Err(io::Error::other("the thread that reads it has ended").into()),
    })
}

fn read(path: &Path, most: u64) -> Result<String, Unread> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Unread::TooLarge(most));
    }
    let text = String::from_utf8(bytes).map_err(|_| Unread::NotText)?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned()) // some editors begin a file of UTF-8 with it
}

/// What is wrong with a value in quotes. A shell takes them away, and most other places do not: Docker's env files, a
/// systemd unit in which they stand behind the `=`, a second pair of them in YAML.
pub const QUOTED: &str = "the quotes around it are part of the value: leave them out";

/// Whether the same quotes begin and end the text.
pub fn is_quoted(text: &str) -> bool {
    text.len() > 1 && ['"', '\'', '`'].iter().any(|quote| text.starts_with(*quote) && text.ends_with(*quote))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_file_without_an_end_is_too_large() {
        assert!(matches!(once(Path::new("/dev/zero")), Err(Unread::TooLarge(_))));
    }

    /// A pipe of this name that goes with the test.
    struct Pipe(PathBuf);

    impl Pipe {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("outbox-relay-pipe-{}-{name}", std::process::id()));
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            Self(path)
        }
    }

    impl Drop for Pipe {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_pipe_is_read_if_somebody_writes_and_given_up_otherwise() {
        let (written, silent) = (Pipe::new("written"), Pipe::new("silent"));
        let writer = thread::spawn({
            let path = written.0.clone();
            move || fs::write(path, "slot = 'a'\n")
        });
        assert_eq!(once(&written.0).unwrap(), "slot = 'a'\n");
        writer.join().unwrap().unwrap();
        assert!(matches!(once(&silent.0), Err(Unread::Silent)));
        assert!(matches!(secret(&silent.0), Err(Unread::Irregular)));
    }
}
