//! A server's address with its login: given as a value, or in a file that is read again for each connection.

use std::{
    fmt::{self, Display},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use pg_replication::ConnInfo;

use crate::{
    error::{Kind, RunError},
    redact::file_name,
    text_file::{self, QUOTED, Unread, is_quoted},
};

/// How long the password in a file may differ from the server's. A change reaches the two at different times:
/// Kubernetes brings a secret into its pods within two minutes.
const CHANGES_WITHIN: Duration = Duration::from_secs(120);

/// A server's address, such as a [`ConnInfo`]. `Display` and `Debug` show no password, as those of `T` show none.
/// Clones share the address that was read last.
#[derive(Clone)]
pub struct Address<T> {
    file: Option<PathBuf>,
    latest: Arc<Mutex<Option<T>>>,
}

/// A file without a valid address. The error is transient, as somebody may be editing the file; it shows nothing of the
/// file's contents.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file_name(path))]
pub struct BadFile {
    path: PathBuf,
    why: Why,
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error("{0}")]
    NotAnAddress(String),
}

impl<T: Clone + Display + FromStr<Err: Display>> Address<T> {
    /// An address given as a value.
    pub fn given(address: T) -> Self {
        Self { file: None, latest: Arc::new(Mutex::new(Some(address))) }
    }

    /// An address in a file, which is not read yet.
    pub fn in_file(path: PathBuf) -> Self {
        Self { file: Some(path), latest: Arc::default() }
    }

    /// The current address; reads the file, if the address is in one.
    ///
    /// # Errors
    ///
    /// The file contains no valid address at the moment.
    pub fn now(&self) -> Result<T, BadFile> {
        let bad = |path: &Path, why| BadFile { path: path.to_owned(), why };
        match (&self.file, self.latest()) {
            (None, Some(address)) => Ok(address),
            (None, None) => Err(bad(Path::new(""), Unread::Empty.into())), // unreachable: given() sets an address
            (Some(path), _) => {
                let address: T = read(path).map_err(|why| bad(path, why))?;
                *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(address.clone());
                Ok(address)
            }
        }
    }

    /// The address that was read last; reads the file, if none was.
    ///
    /// # Errors
    ///
    /// As for [`now`](Self::now).
    pub(crate) fn known(&self) -> Result<T, BadFile> {
        self.latest().map_or_else(|| self.now(), Ok)
    }

    /// The address that was read last; `None`: the file was not read yet.
    pub fn latest(&self) -> Option<T> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The file with the address; `None`: it was given as a value.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Whether a refused password may soon be replaced: the address is in a file, and `since` is less than two minutes
    /// ago.
    pub(crate) fn may_change(&self, since: Instant) -> bool {
        self.file.is_some() && since.elapsed() < CHANGES_WITHIN
    }

    /// Where an operator corrects the address: the file, or else the environment variable `variable`.
    pub fn place(&self, variable: &str) -> String {
        self.file().map_or_else(|| variable.to_owned(), file_name)
    }
}

impl Address<ConnInfo> {
    /// The role of the address that was read last.
    pub fn user(&self) -> String {
        self.latest().map(|server| server.user().to_owned()).unwrap_or_default()
    }

    /// The database of the address that was read last.
    pub fn database(&self) -> String {
        self.latest().map(|server| server.database().to_owned()).unwrap_or_default()
    }
}

impl<T: Clone + Display + FromStr<Err: Display>> Display for Address<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.latest(), self.file()) {
            (Some(address), _) => address.fmt(f),
            (None, Some(path)) => write!(f, "the server of {}", file_name(path)),
            (None, None) => Ok(()),
        }
    }
}

impl<T: Clone + Display + FromStr<Err: Display>> fmt::Debug for Address<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl From<BadFile> for RunError {
    fn from(bad: BadFile) -> Self {
        Self::new(Kind::Usage, "there is no server's address")
            .hint("write the whole file under another name, and then rename it to this one")
            .transient_if(true)
            .source(bad)
    }
}

fn read<T: FromStr<Err: Display>>(path: &Path) -> Result<T, Why> {
    let text = text_file::secret(path)?;
    if is_quoted(&text) {
        return Err(Why::NotAnAddress(QUOTED.to_owned()));
    }
    text.parse().map_err(|error: T::Err| Why::NotAnAddress(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    const URL: &str = "postgres://relay:hunter2@db/shop";

    /// A folder that is deleted when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("outbox-relay-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn file(&self, contents: impl AsRef<[u8]>) -> Address<ConnInfo> {
            let path = self.0.join("url");
            fs::write(&path, contents).unwrap();
            Address::in_file(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_read_each_time_and_the_latest_address_is_shown_without_its_password() {
        let folder = Folder::new("each-time");
        let address = folder.file(format!("{URL}\n"));
        let clone = address.clone();
        assert!(address.latest().is_none() && address.to_string().contains("/url"), "{address}");
        assert_eq!(address.now().unwrap().session("x").get_password(), Some(&b"hunter2"[..]));
        folder.file(URL.replace("hunter2", "hunter3"));
        assert_eq!(address.now().unwrap().session("x").get_password(), Some(&b"hunter3"[..]));
        for shown in [address.to_string(), format!("{clone:?}")] {
            assert!(shown.contains("db:5432/shop as relay") && !shown.contains("hunter"), "{shown}");
        }
    }

    #[test]
    fn space_around_an_address_and_a_byte_order_mark_do_not_count() {
        let folder = Folder::new("space");
        for text in [URL.to_owned(), format!("{URL}\n"), format!("{URL}\r\n\r\n"), format!("\u{feff} {URL} \n")] {
            assert_eq!(folder.file(&text).now().unwrap().to_string(), "db:5432/shop as relay", "{text:?}");
        }
        let pairs = "host=db\nuser=relay\npassword='hunter2'\ndbname=shop\n";
        assert_eq!(folder.file(pairs).now().unwrap().to_string(), "db:5432/shop as relay");
    }

    #[test]
    fn a_link_is_followed_anew_each_time_as_kubernetes_swaps_it() {
        let folder = Folder::new("link");
        let put = |version: &str, host: &str| {
            fs::create_dir_all(folder.0.join(version)).unwrap();
            fs::write(folder.0.join(version).join("url"), URL.replace("@db", &format!("@{host}"))).unwrap();
            symlink(version, folder.0.join("new")).unwrap();
            fs::rename(folder.0.join("new"), folder.0.join("..data")).unwrap();
        };
        put("..1", "a");
        symlink("..data/url", folder.0.join("url")).unwrap();
        let address: Address<ConnInfo> = Address::in_file(folder.0.join("url"));
        assert_eq!(address.now().unwrap().to_string(), "a:5432/shop as relay");
        put("..2", "b");
        assert_eq!(address.now().unwrap().to_string(), "b:5432/shop as relay");
    }

    #[test]
    fn a_file_without_an_address_is_refused_with_its_name_and_reason_and_nothing_of_its_contents() {
        let folder = Folder::new("bad");
        let too_large = "hunter2".repeat(10_000);
        for (contents, why) in [
            (&b""[..], "is empty"),
            (b" \r\n", "is empty"),
            (b"postgres://relay:hunter2\xff@db/shop", "is not UTF-8"),
            (b"postgres://relay:hunter2@db/shop\0\0\0\0", "has a NUL"),
            (too_large.as_bytes(), "has more than 64 KiB"),
            (b"postgres://relay:hunter2", "invalid value for option"),
            (b"hunter2", "not a connection string"),
        ] {
            let bad = folder.file(contents).now().unwrap_err();
            for text in [bad.to_string(), format!("{bad:?}"), RunError::from(bad).to_string()] {
                assert!(text.contains("/url") && !text.contains("hunter2"), "{text}");
                assert!(text.contains(why) || text.contains("BadFile"), "{why}: {text}");
            }
        }
        for (path, why) in [("nowhere", "cannot be read: No such file"), (".", "is no regular file")] {
            let bad = Address::<ConnInfo>::in_file(folder.0.join(path)).now().unwrap_err().to_string();
            assert!(bad.contains(why), "{bad}");
        }
    }

    #[test]
    fn only_a_password_from_a_file_may_change_and_only_for_two_minutes() {
        let given = Address::given(URL.parse::<ConnInfo>().unwrap());
        let file = Address::<ConnInfo>::in_file("/nowhere".into());
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        assert_eq!(
            [file.may_change(ago(110)), file.may_change(ago(121)), given.may_change(ago(0))],
            [true, false, false]
        );
    }

    #[test]
    fn a_file_that_is_bad_now_leaves_the_latest_address_to_be_shown() {
        let folder = Folder::new("latest");
        let address = folder.file(URL);
        address.now().unwrap();
        folder.file("");
        assert!(address.now().is_err());
        assert_eq!(address.to_string(), "db:5432/shop as relay");
    }
}
