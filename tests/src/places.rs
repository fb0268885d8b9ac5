//! Where things are: the checkout, the servers' folder, the programs.

use std::{
    fs::Permissions,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::guarded::Guarded;

/// The repository's root.
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate lies in the repository")
}

/// A program that cargo built beside the one that runs now, e.g. `outbox-relay`; `variable` in the environment names
/// another file.
///
/// # Panics
/// When it is not there: `cargo test` builds no other package's programs, `make` does.
pub fn program(name: &str, variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).map_or_else(
        || {
            let exe = std::env::current_exe().expect("the path of the running program");
            let folder = exe.parent().expect("a program lies in a folder");
            let folder = if folder.ends_with("deps") { folder.parent().expect("deps has a parent") } else { folder };
            folder.join(name)
        },
        PathBuf::from,
    );
    assert!(path.is_file(), "{} is missing: run `make relay-otel`, or set {variable}", path.display());
    path
}

/// A program that the system has, in its `usual` folder or elsewhere on PATH. `None`: it is not installed.
pub(crate) fn installed(name: &str, usual: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::iter::once(PathBuf::from(usual)).chain(std::env::split_paths(&path));
    folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()))
}

/// The `pg_config` of the private copy of PostgreSQL that the servers run from, which is made if it is not there yet.
///
/// # Panics
/// When no PostgreSQL is installed.
pub fn pg_config() -> &'static Path {
    static PG_CONFIG: OnceLock<PathBuf> = OnceLock::new();
    PG_CONFIG.get_or_init(|| line(&mut Command::new(checkout().join("scripts/private-postgres"))).into())
}

/// One of the private PostgreSQL's folders, e.g. `--sharedir`.
pub(crate) fn pg_folder(option: &str) -> PathBuf {
    line(Command::new(pg_config()).arg(option)).into()
}

/// Whether the private PostgreSQL has the extension's files.
pub fn extension_installed() -> bool {
    pg_folder("--sharedir").join("extension/outbox.control").is_file()
}

/// The user that PostgreSQL runs as: it refuses root, so root's servers run as `postgres`. `None`: as ourselves.
pub(crate) fn postgres_user() -> Option<&'static str> {
    rustix::process::geteuid().is_root().then_some("postgres")
}

/// A new folder for one server, in this process's own folder, which goes when the process ends. `OUTBOX_KEEP_SERVERS=1`
/// keeps the files (not the servers) for a look at their logs.
pub(crate) fn server_folder(name: &str) -> PathBuf {
    static RUN: OnceLock<(PathBuf, Guarded)> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (run, _keeper) = RUN.get_or_init(|| {
        let run = Path::new(&line(&mut Command::new(checkout().join("scripts/servers-folder"))))
            .join(format!("run-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&run); // of an earlier process with the same id whose guardian was killed too
        let keeper = Guarded::keeper(&run, std::env::var_os("OUTBOX_KEEP_SERVERS").is_some());
        (run, keeper)
    });
    let folder = run.join(format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    make_folder(&folder);
    folder
}

/// Where [`Guarded`] processes meet their keeper: every one of them holds this file's lock while it lives.
pub(crate) fn run_folder(server_folder: &Path) -> &Path {
    server_folder.parent().expect("a server's folder lies in the run's folder")
}

/// Gives `path` to the user that PostgreSQL runs as.
pub(crate) fn give_to_postgres(path: &Path) {
    if let Some(user) = postgres_user() {
        let id = |option| line(Command::new("id").args([option, user])).parse::<u32>().ok();
        chown(path, id("-u"), id("-g")).unwrap_or_else(|e| panic!("chown {}: {e}", path.display()));
    }
}

/// The numbers in a file name, so that `rabbitmq_server-3.10.8` sorts after `rabbitmq_server-3.9.1`.
pub(crate) fn version_in(path: &Path) -> Vec<u32> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// The one line that a small program prints.
fn line(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("cannot run {command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Open to all for reading whatever our umask is: user postgres has to get through.
pub(crate) fn make_folder(path: &Path) {
    let made = std::fs::create_dir(path).and_then(|()| std::fs::set_permissions(path, Permissions::from_mode(0o755)));
    made.unwrap_or_else(|e| panic!("cannot make {}: {e}", path.display()));
}
