//! What a node runs from: Java, and the jars that `scripts/kafka` fetches.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use tokio::sync::OnceCell;

use super::KafkaBuilder;
use crate::places::checkout;

/// The folder of the jars, which are fetched if they are not there yet. `Err` says why no Kafka can run here.
pub(super) fn folder() -> Result<&'static Path, &'static str> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let fetched = FOLDER.get_or_init(|| {
        let output = Command::new(checkout().join("scripts/kafka")).output().map_err(|e| e.to_string())?;
        let [printed, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let last = said.lines().last().unwrap_or_default().trim_start_matches("kafka: ");
        if output.status.success() { Ok(printed.trim_end().into()) } else { Err(last.to_owned()) }
    });
    fetched.as_deref().map_err(String::as_str)
}

/// Java with everything but the class that it runs.
pub(super) fn java() -> Command {
    let folder = folder().unwrap_or_else(|why| panic!("no Kafka here: {why}"));
    let files = fs::read_dir(folder).expect("the jars").flatten().map(|file| file.path().display().to_string());
    let mut jars: Vec<_> = files.filter(|path| path.ends_with(".jar")).collect();
    jars.sort(); // an archive of classes is valid for one order alone
    let mut java = Command::new("java");
    java.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .args(["-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"])
        .arg("-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn") // 2,500 lines a start
        .args(["-cp", &jars.join(":")]);
    java
}

/// The file of classes as Java has loaded them once, which is made if it is not there yet. With it a node is up in
/// 1.3 s in place of 3.4 s; Java leaves aside a file that no longer fits.
pub(super) async fn class_archive() -> &'static Path {
    static ARCHIVE: OnceCell<PathBuf> = OnceCell::const_new();
    let made = ARCHIVE.get_or_init(async || {
        let folder = folder().unwrap_or_else(|why| panic!("no Kafka here: {why}"));
        let archive = folder.join("classes.jsa");
        if !archive.exists() {
            let new = folder.join(format!("classes-{}.jsa", std::process::id()));
            let option = format!("-XX:ArchiveClassesAtExit={}", new.display());
            KafkaBuilder::default().start_with(&option).await.node(1).stop().await;
            fs::rename(&new, &archive).expect("Java writes the archive when it ends");
        }
        archive
    });
    made.await
}
