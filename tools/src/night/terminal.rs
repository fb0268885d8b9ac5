//! What the person on call types, what it says, and what rings: a transcript with the time since the trouble's
//! beginning.

use std::{
    process::{Command, Stdio},
    time::Instant,
};

/// A terminal on the relay's machine, with the environment that the relay's settings come from.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    began: Instant,
    environment: Vec<(String, String)>,
}

impl Terminal {
    /// Prints the trouble's title, and begins to count.
    pub(crate) fn open(title: &str, environment: &[(&str, &str)]) -> Self {
        println!("\n## {title}\n");
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { began: Instant::now(), environment }
    }

    /// What happens to the servers. Whoever is on call does not see this.
    pub(crate) fn happens(&self, what: &str) {
        println!("{} -- {what}", self.clock());
    }

    /// What the pager says.
    pub(crate) fn rings(&self, what: &str) {
        println!("{} !! {what}", self.clock());
    }

    /// Types a line into a shell, and prints it with what it says and how it ended; returns what it says.
    pub(crate) fn types(&self, line: &str) -> String {
        let at = self.clock();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{{ {line}\n}} 2>&1")]).env_clear().stdin(Stdio::null());
        shell.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = shell.output().unwrap_or_else(|e| panic!("sh: {e}"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{at} $ {line}");
        print_indented(&said);
        if let Some(code @ 1..) = output.status.code() {
            println!("      (exit code {code})");
        }
        said
    }

    /// Shows a line that was typed on another machine, and what it said there.
    pub(crate) fn shows(&self, line: &str, said: &str) {
        println!("{} $ {line}", self.clock());
        print_indented(said);
    }

    fn clock(&self) -> String {
        let seconds = self.began.elapsed().as_secs();
        format!("{:02}:{:02}", seconds / 60, seconds % 60)
    }
}

fn print_indented(text: &str) {
    for line in text.lines() {
        println!("{}", format!("      {line}").trim_end());
    }
}
