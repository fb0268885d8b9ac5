//! Text files named by settings. Reading one always ends, because its size and its time are limited.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::mpsc::{RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

/// Largest file with a secret, in bytes; no address needs as much.
const LARGEST_SECRET: u64 = 64 * 1024;

/// Largest other file of settings, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// Time limit of reading from a pipe.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a file's text was not read. Shows nothing of the file's contents.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// The system refuses to open or read the file.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// A file that must be read again is a pipe or a folder.
    #[error("is no regular file, and so cannot be read again for each connection")]
    Irregular,
    /// The file has more than this number of bytes.
    #[error("has more than {} KiB", .0 / 1024)]
    TooLarge(u64),
    /// The file contains nothing but white space.
    #[error("is empty")]
    Empty,
    /// The text is not UTF-8.
    #[error("is not UTF-8")]
    NotText,
    /// The text contains a NUL.
    #[error("has a NUL in it, as a file may that is being written")]
    Nul,
    /// Nothing was written into the pipe within the time limit.
    #[error("nobody has written into it within {PATIENCE:?}, and nobody may: it is a pipe or a terminal")]
    Silent,
}

/// The text of a regular file, without white space around it such as the end of its line.
pub fn secret(path: &Path) -> Result<String, Unread> {
    // Opening a pipe would wait until somebody writes.
    if !fs::metadata(path)?.is_file() {
        return Err(Unread::Irregular);
    }
    let text = read(path, LARGEST_SECRET)?.trim().to_owned();
    if text.is_empty() {
        return Err(Unread::Empty);
    }
    if text.contains('\0') { Err(Unread::Nul) } else { Ok(text) }
}

/// The text of a file that is read only once, which may be a pipe, such as a shell makes of `<(…)`.
pub fn once(path: &Path) -> Result<String, Unread> {
    if fs::metadata(path)?.is_file() {
        return read(path, LARGEST);
    }
    // A thread that waits for ever ends with the process, which ends because the file is missing.
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
    // Some editors begin UTF-8 files with a byte order mark.
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

/// The error about a value in quotes. A shell removes quotes; Docker's env files, a systemd unit with quotes behind the
/// `=`, and a second pair of quotes in YAML keep them in the value.
pub const QUOTED: &str = "the quotes around it are part of the value: leave them out";

/// Whether the text begins and ends with the same quote.
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

    /// A named pipe that is deleted when the test ends.
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
