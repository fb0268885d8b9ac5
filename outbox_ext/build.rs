//! Puts the extension's script, which is made from `sql/outbox.sql`, into the library, where `cargo pgrx` finds it.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("..");
    println!("cargo::rerun-if-changed={}", root.join("sql").display());
    println!("cargo::rerun-if-changed={}", root.join("scripts/flat-sql").display());
    let output = Command::new(root.join("scripts/flat-sql")).args(["extension", "install"]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let script = String::from_utf8(output.stdout)?;
    // cargo-pgrx writes lines of its own before it.
    let script = script.split_once('\n').map_or("", |(_, rest)| rest);
    let rust = format!("::pgrx::extension_sql!(r####\"{script}\"####, name = \"schema\", bootstrap);\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("schema.rs"), rust)?;
    Ok(())
}
