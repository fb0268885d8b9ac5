//! Prints the install script of the built extension: `outbox-install-sql LIBRARY CONTROL_FILE`.
//!
//! pgrx keeps the SQL in a section of the library; `cargo pgrx` reads it from there as this does. With it the extension
//! installs without cargo-pgrx, which takes longer to build than everything else here (scripts/install-extension).

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use object::{Object, ObjectSection};
use pgrx_sql_entity_graph::{ControlFile, PgrxSql, SqlGraphEntity, section};

const USAGE: &str = "usage: outbox-install-sql LIBRARY CONTROL_FILE";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let library = fs::read(arguments.next().ok_or(USAGE)?)?;
    let control_file = arguments.next().ok_or(USAGE)?;

    let library = object::File::parse(&*library)?;
    let section = library
        .section_by_name(section::ELF_SECTION_NAME)
        .or_else(|| library.section_by_name(section::MACHO_SECTION_NAME))
        .ok_or("the library has no SQL of pgrx in it")?;
    let control = ControlFile::from_path_with_cargo_version(Path::new(&control_file), env!("CARGO_PKG_VERSION"))?;

    let mut entities = section::decode_entities(section.data()?)?;
    entities.push(SqlGraphEntity::ExtensionRoot(control));
    print!("{}", PgrxSql::build(entities.into_iter(), env!("CARGO_PKG_NAME").into(), false)?.to_sql()?);
    Ok(())
}
