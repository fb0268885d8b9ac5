//! A copy of an example's folder, where its dependencies are installed.

use std::{
    fs::File,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::Command,
};

use super::{clients, text};
use crate::not_run::{not_run, not_run_outside_ci};

/// A copy of one example's folder below `target/`, with its dependencies installed.
pub(super) struct Workshop {
    folder: PathBuf,
}

impl Workshop {
    /// Copies tests/clients/{name} and installs, unless the same files were installed before. `None`, and the reason in
    /// a file for scripts/not-run, when that cannot be done here.
    ///
    /// # Panics
    /// When it cannot be done and this is CI (`CI=true`).
    pub(super) async fn open(name: &str, install: fn(&Self) -> Result<(), String>) -> Option<Self> {
        Self::open_or(name, install, not_run_outside_ci).await
    }

    /// The same for a toolchain that CI's machine need not have: without it the test did not run, on CI neither.
    pub(super) async fn open_where_present(name: &str, install: fn(&Self) -> Result<(), String>) -> Option<Self> {
        Self::open_or(name, install, not_run).await
    }

    async fn open_or(name: &str, install: fn(&Self) -> Result<(), String>, missing: fn(&str, &str)) -> Option<Self> {
        let source = clients().join(name);
        let workshop = Self { folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients").join(name) };
        let prepare = move || workshop.prepare(&source, install).map(|()| workshop);
        match tokio::task::spawn_blocking(prepare).await.unwrap() {
            Ok(workshop) => Some(workshop),
            Err(why) => {
                missing(name, &why);
                None
            }
        }
    }

    fn prepare(&self, source: &Path, install: fn(&Self) -> Result<(), String>) -> Result<(), String> {
        std::fs::create_dir_all(&self.folder).unwrap();
        // Two test runs at a time share the folder.
        let alone = File::create(self.folder.join(".lock")).unwrap();
        alone.lock().unwrap();
        let mut files = files_below(source);
        files.sort();
        let wanted = files.iter().map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>().concat();
        let installed = self.folder.join(".installed");
        if std::fs::read(&installed).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        for file in files {
            let to = self.folder.join(file.strip_prefix(source).unwrap());
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(&file, to).unwrap();
        }
        install(self)?;
        std::fs::write(installed, wanted).unwrap();
        Ok(())
    }

    pub(super) fn pip_install(&self) -> Result<(), String> {
        self.run("python3 -m venv --clear venv")?;
        self.run("venv/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check --only-binary :all: --require-hashes --requirement requirements.txt")
    }

    /// Runs an installer; the error is its last words.
    pub(super) fn run(&self, line: &str) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let mut command = self.command(words.next().unwrap());
        let output = command.args(words).output().map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!("no {} on PATH", line.split(' ').next().unwrap_or_default()),
            _ => format!("{line}: {error}"),
        })?;
        if output.status.success() {
            return Ok(());
        }
        let said = text(&output);
        let last = said.trim_end().rsplit('\n').take(5).collect::<Vec<_>>();
        Err(format!("{line}: {}", last.into_iter().rev().collect::<Vec<_>>().join("\n")))
    }

    /// A program in the folder, or on PATH when its name has no slash.
    pub(super) fn command(&self, program: &str) -> Command {
        let path = if program.contains('/') { self.folder.join(program) } else { program.into() };
        let mut command = Command::new(path);
        command.current_dir(&self.folder);
        // Go: everything stays below target/, is writable (so that `make clean` can remove it), and no other version of
        // Go is fetched.
        let go = [("GOMODCACHE", "modules"), ("GOCACHE", "build")];
        command.envs(go.map(|(name, folder)| (name, self.folder.join(folder))));
        command.envs([("GOFLAGS", "-mod=readonly -modcacherw"), ("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "0")]);
        command
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
