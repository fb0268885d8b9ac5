//! The recipes of docs/languages/ in Go, Java, Rust and C#: each emits in its framework's own transaction, rolls back
//! with it, and has a test that asserts what was emitted. No relay runs: rows are enough.
//!
//! Go, Java and Rust are on CI's machine. .NET need not be: without it its recipe did not run, on CI neither.

use super::{
    Workshop, copy_jars, go,
    scripted::{asserts, emits, run},
};

#[tokio::test]
async fn gorm_emits_in_its_transaction() {
    let Some(workshop) = go().await else { return };
    let db = emits(workshop.command("built/gorm")).await;
    asserts(&db, run(&workshop, "built/gorm.test -test.v"), "--- PASS: TestAPlacedOrderIsEmitted").await;
}

#[tokio::test]
async fn spring_with_jpa_emits_in_its_transaction() {
    let install = |workshop: &Workshop| {
        copy_jars(workshop)?;
        workshop.run("javac -parameters -cp jars/* -d built Shop.java")
    };
    let Some(workshop) = Workshop::open("spring", install).await else { return };
    // Spring is over before the second compiler has earned its keep: that halves the processor's time.
    let java = "java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp built:jars/*";
    let db = emits(run(&workshop, &format!("{java} shop.Shop"))).await;
    let junit = "org.junit.platform.console.ConsoleLauncher execute --select-class=shop.ShopTest";
    asserts(&db, run(&workshop, &format!("{java} {junit}")), "[         1 tests successful      ]").await;
}

#[tokio::test]
async fn sqlx_emits_in_its_transaction() {
    let install = |workshop: &Workshop| {
        workshop.run("cargo build --quiet --locked --target-dir target")?;
        workshop.run("cargo test --quiet --locked --target-dir target --no-run")
    };
    let Some(workshop) = Workshop::open("rust", install).await else { return };
    let db = emits(workshop.command("target/debug/orders")).await;
    asserts(&db, run(&workshop, "cargo test --quiet --offline --locked --target-dir target"), "1 passed").await;
}

#[tokio::test]
async fn ef_core_emits_in_its_transaction() {
    let install = |workshop: &Workshop| workshop.run("dotnet build --nologo --verbosity quiet --output built");
    let Some(workshop) = Workshop::open_where_present("dotnet", install).await else { return };
    let db = emits(run(&workshop, "dotnet built/Shop.dll")).await;
    asserts(&db, run(&workshop, "dotnet test built/Shop.dll"), "Passed!").await;
}
