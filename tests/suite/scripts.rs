//! The scripts below scripts/ that a newcomer meets first: what they refuse, and in which words.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use harness::places::{checkout, pg_config};

#[test]
fn a_wrong_pg_config_is_named_in_one_sentence() {
    let folder = Folder::new("wrong");
    let plain = folder.file("plain", 0o644, "");
    let talker = folder.pg_config("talker", "echo nonsense");
    let old = folder.pg_config("old", "echo PostgreSQL 13.9");
    let new = folder.pg_config("new", "echo PostgreSQL 99beta1");
    let bare = folder.pg_config("bare", "echo PostgreSQL 17.2");
    let missing = folder.0.join("missing");
    for (given, says) in [
        (&missing, "there is no such file".to_owned()),
        (&folder.0, "not a program that".to_owned()),
        (&plain, "not a program that".to_owned()),
        (&talker, "not a pg_config; asked for --version it says 'nonsense'".to_owned()),
        (&old, "PostgreSQL 13.9 is not supported, but 14 to 18 are".to_owned()),
        (&new, "PostgreSQL 99beta1 is not supported, but 14 to 18 are".to_owned()),
        (&bare, format!("the server's headers are missing, no postgres.h in {}/bare", folder.0.display())),
    ] {
        for name in ["private-postgres", "install-extension"] {
            let mut command = script(name);
            let output = match name {
                "private-postgres" => command.env("PG_CONFIG", given).output().unwrap(),
                _ => command.arg(given).output().unwrap(),
            };
            let said = refusal(&output);
            assert!(said.starts_with(&format!("PG_CONFIG={}: {says}", given.display())), "{name}: {said}");
            assert_eq!(said.lines().count(), 1, "{name}: {said}");
        }
    }
    assert_eq!(
        refusal(&script("install-extension").arg("").output().unwrap()),
        "no pg_config on PATH: give PG_CONFIG=/path/to/pg_config\n"
    );
}

#[test]
fn a_postgresql_anywhere_is_copied_and_nothing_is_written_into_it() {
    let folder = Folder::new("anywhere else");
    // The tests' own copy lies outside /usr/lib/postgresql, as a build in a home folder does; reached by a link.
    let link = folder.0.join("pg_config");
    symlink(pg_config(), &link).unwrap();
    let servers = folder.0.join("target");
    let mut paths = Vec::new();
    for _ in 0..2 {
        let mut command = script("private-postgres");
        command.env("PG_CONFIG", &link).env("CARGO_TARGET_DIR", &servers).env_remove("OUTBOX_SERVERS");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        paths.push(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end()));
    }
    assert_eq!(paths[0], paths[1]);
    assert_ne!(paths[0], pg_config());
    let copy = paths[0].ancestors().find(|folder| folder.join("copied-from").is_file()).expect("a copy").to_owned();
    for option in ["--bindir", "--pkglibdir", "--sharedir"] {
        let output = Command::new(&paths[0]).arg(option).output().unwrap();
        let place = String::from_utf8(output.stdout).unwrap();
        assert!(Path::new(&place).starts_with(&copy), "{option}: {place}");
    }
    // root's files lie in /tmp when user postgres cannot reach the folder.
    let all = copy.parent().unwrap();
    assert!(!pg_config().starts_with(all), "{} has the servers that run", all.display());
    fs::remove_dir_all(all).unwrap();
}

#[test]
fn where_there_is_no_apt_setup_names_all_that_is_missing_and_where_it_looked() {
    let folder = Folder::new("no apt");
    for program in ["bash", "sed", "sort", "head", "id", "cut", "dirname", "cat", "tr", "cargo"] {
        let found = Command::new("bash").args(["-c", &format!("type -P {program}")]).output().unwrap();
        symlink(String::from_utf8(found.stdout).unwrap().trim_end(), folder.0.join(program)).unwrap();
    }
    let said = refusal(&script("setup").env("PATH", &folder.0).output().unwrap());
    assert!(
        said.starts_with("setup: no apt-get here; install by hand what is missing and where it was looked for:\n"),
        "{said}"
    );
    assert!(said.contains("\n  a C compiler: cc on PATH\n  flock (util-linux): on PATH"), "{said}");
    assert!(!said.contains("which may be"), "{said}");
    for (manager, command) in [
        ("dnf", "sudo dnf install gcc util-linux"),
        ("pacman", "sudo pacman -S gcc util-linux"),
        ("brew", "brew install flock llvm"),
    ] {
        folder.file(manager, 0o755, "#!/bin/sh");
        let said = refusal(&script("setup").env("PATH", &folder.0).output().unwrap());
        assert!(said.ends_with(&format!("\nwhich may be: {command}\n")), "{said}");
        fs::remove_file(folder.0.join(manager)).unwrap();
    }
    // On a database's host the extension takes less than the tests do.
    let said = refusal(&script("setup").arg("extension").env("PATH", &folder.0).output().unwrap());
    assert!(said.contains("cc on PATH") && !said.contains("flock"), "{said}");

    fs::remove_file(folder.0.join("cargo")).unwrap();
    let said = refusal(&script("setup").env("PATH", &folder.0).output().unwrap());
    assert!(said.starts_with("setup: Rust 1.95 or newer is missing") && said.contains("https://rustup.rs"), "{said}");
    folder.file("cargo", 0o755, "#!/bin/sh\necho cargo 1.65.0");
    let said = refusal(&script("setup").env("PATH", &folder.0).output().unwrap());
    assert!(
        said.starts_with("setup: Rust 1.95 or newer is needed, and ") && said.contains(" is 1.65: rustup update"),
        "{said}"
    );
}

/// A folder below target/ that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("scripts {name} {}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, mode: u32, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// A program that answers `--version`, and everything else with a folder that is not there.
    fn pg_config(&self, name: &str, version: &str) -> PathBuf {
        let text =
            format!("#!/bin/sh\ncase $1 in --version) {version} ;; *) echo '{}/{name}' ;; esac", self.0.display());
        self.file(name, 0o755, &text)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn script(name: &str) -> Command {
    let mut command = Command::new(checkout().join("scripts").join(name));
    for variable in ["PG_CONFIG", "RABBITMQ_HOME"] {
        command.env_remove(variable);
    }
    command
}

/// What a script that must fail says.
fn refusal(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "not refused: {said}");
    said
}
