//! The examples in tests/clients work: each commits an order and its event as a role with the application's grants, and
//! the message arrives.
//!
//! Each language's ordinary client installs the locked dependencies below `target/`, once. Where the toolchain is missing,
//! or the dependencies cannot be had, the test did not run. Rust's tests cannot say that, so it passes, and the last lines of
//! `make test` say which did not run (scripts/not-run). On CI it fails.

use std::{
    fs::File,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use harness::{Postgres, SOON, Stack, eventually, places::checkout};
use uuid::Uuid;

#[tokio::test]
async fn a_script_emits_with_psql() {
    let mut psql = Postgres::shared().await.program("psql");
    psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
    psql.arg("--file").arg(clients().join("psql/emit.sql"));
    delivers(psql, |psql, url| psql.arg(url)).await;
}

#[tokio::test]
async fn a_python_program_emits_with_psycopg() {
    let install = |workshop: &Workshop| workshop.pip_install();
    let Some(workshop) = Workshop::open("python", install).await else {
        return;
    };
    let mut python = workshop.command("venv/bin/python");
    python.arg("emit.py");
    delivers(python, in_environment).await;
}

#[tokio::test]
async fn an_orm_emits_by_inserting_an_object() {
    let install = |workshop: &Workshop| workshop.pip_install();
    let Some(workshop) = Workshop::open("orm", install).await else {
        return;
    };
    let mut python = workshop.command("venv/bin/python");
    python.arg("emit.py");
    delivers(python, in_environment).await;
}

#[tokio::test]
async fn a_node_program_emits_with_pg() {
    let install = |workshop: &Workshop| {
        workshop.run("npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --cache npm-cache")
    };
    let Some(workshop) = Workshop::open("node", install).await else {
        return;
    };
    let mut node = workshop.command("node");
    node.arg("emit.mjs");
    delivers(node, in_environment).await;
}

#[tokio::test]
async fn a_go_program_emits_with_pgx() {
    // Not optimized: that is a third of the time it takes to compile Go's own library.
    let install = |workshop: &Workshop| workshop.run("go build -gcflags=all=-N -o emit .");
    let Some(workshop) = Workshop::open("go", install).await else {
        return;
    };
    delivers(workshop.command("./emit"), in_environment).await;
}

#[tokio::test]
async fn a_java_program_emits_with_jdbc() {
    let install = |workshop: &Workshop| {
        workshop.run("mvn --batch-mode --quiet -Dmaven.repo.local=repository dependency:copy-dependencies -DoutputDirectory=jars")
    };
    let Some(workshop) = Workshop::open("java", install).await else {
        return;
    };
    let mut java = workshop.command("java");
    java.args(["-cp", "jars/*", "Emit.java"]);
    delivers(java, in_environment).await;
}

/// Runs the example against a database with the business table, and follows its event to the consumer.
async fn delivers(mut example: Command, tell_url: impl FnOnce(&mut Command, String) -> &mut Command) {
    let stack = Stack::new().await;
    let consumer = stack.consumer("orders.*").await;
    let relay = stack.relay().start().await;
    let role = format!("{}_shop", stack.db.name());
    let orders = std::fs::read_to_string(clients().join("orders.sql")).unwrap();
    let setup = format!(
        "{orders} CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT ON orders TO {role}; SELECT outbox.grant_emit('{role}')"
    );
    stack.db.batch_execute(&setup).await.unwrap();

    tell_url(&mut example, stack.db.url_as(&role));
    let output = tokio::task::spawn_blocking(move || example.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let id: Uuid = printed.trim().parse().unwrap_or_else(|_| panic!("not an id: {printed:?}"));

    let order = "SELECT id, to_jsonb(orders) FROM orders";
    let (order_id, order): (i64, serde_json::Value) = {
        let row = stack.db.query_one(order, &[]).await.unwrap();
        (row.get(0), row.get(1))
    };
    let got = consumer.wait_for_ids(&[id], SOON).await;
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].routing_key, "orders.created");
    assert_eq!(got[0].key(), Some(("order".to_owned(), order_id.to_string())));
    for (name, value) in order.as_object().unwrap() {
        match value.as_f64() {
            Some(number) => assert_eq!(got[0].json()[name].as_f64(), Some(number), "{name}"),
            None => assert_eq!(&got[0].json()[name], value, "{name}"),
        }
    }
    eventually("the row is SENT", SOON, async || {
        let status = "SELECT status::text FROM outbox.events WHERE id = $1";
        match stack.db.query_one(status, &[&id]).await.unwrap().get(0) {
            "SENT" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
    assert!(relay.stop().await.success());
}

fn in_environment(example: &mut Command, url: String) -> &mut Command {
    example.env("DATABASE_URL", url)
}

/// A copy of one example's folder below `target/`, with its dependencies installed.
struct Workshop {
    folder: PathBuf,
}

impl Workshop {
    /// Copies tests/clients/{name} and installs, unless the same files were installed before. `None`, and the reason in a file
    /// for scripts/not-run, when that cannot be done here.
    ///
    /// # Panics
    /// When it cannot be done and this is CI (`CI=true`).
    async fn open(name: &str, install: fn(&Self) -> Result<(), String>) -> Option<Self> {
        let source = clients().join(name);
        let workshop = Self { folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients").join(name) };
        let prepare = move || workshop.prepare(&source, install).map(|()| workshop);
        match tokio::task::spawn_blocking(prepare).await.unwrap() {
            Ok(workshop) => Some(workshop),
            Err(why) => {
                let ci = std::env::var("CI").is_ok_and(|ci| !["", "0", "false"].contains(&ci.as_str()));
                assert!(!ci, "tests/clients/{name} was not run: {why}");
                let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-run");
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(folder.join(name), why).unwrap();
                None
            }
        }
    }

    fn prepare(&self, source: &Path, install: fn(&Self) -> Result<(), String>) -> Result<(), String> {
        std::fs::create_dir_all(&self.folder).unwrap();
        // Two test runs at a time share the folder.
        let alone = File::create(self.folder.join(".lock")).unwrap();
        alone.lock().unwrap();
        let mut files: Vec<PathBuf> = std::fs::read_dir(source).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let wanted = files.iter().map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>().concat();
        let installed = self.folder.join(".installed");
        if std::fs::read(&installed).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        for file in files {
            std::fs::copy(&file, self.folder.join(file.file_name().unwrap())).unwrap();
        }
        install(self)?;
        std::fs::write(installed, wanted).unwrap();
        Ok(())
    }

    fn pip_install(&self) -> Result<(), String> {
        self.run("python3 -m venv --clear venv")?;
        self.run("venv/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check --only-binary :all: --require-hashes --requirement requirements.txt")
    }

    /// Runs an installer; the error is its last words.
    fn run(&self, line: &str) -> Result<(), String> {
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
    fn command(&self, program: &str) -> Command {
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

fn clients() -> PathBuf {
    checkout().join("tests/clients")
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}
