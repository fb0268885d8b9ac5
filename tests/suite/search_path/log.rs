//! The server's log, by sessions.

/// What one session has logged.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) application: String,
    /// Without its level, and in one piece.
    pub(crate) text: String,
}

/// What the sessions of a database have logged.
pub(crate) fn entries(log: &str, database: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut belongs = false;
    for line in log.lines() {
        if let Some(more) = line.strip_prefix('\t') {
            if let (true, Some(last)) = (belongs, entries.last_mut()) {
                last.text.push('\n');
                last.text.push_str(more);
            }
            continue;
        }
        let entry = entry(line, database);
        belongs = entry.is_some();
        entries.extend(entry);
    }
    entries
}

/// A line `time [pid] user@database/application LEVEL:  text`.
fn entry(line: &str, database: &str) -> Option<Entry> {
    let (_, session) = line.split_once("] ")?;
    let (_, at) = session.split_once(&format!("@{database}/"))?;
    let (head, text) = at.split_once(":  ")?;
    let (application, _level) = head.rsplit_once(' ')?;
    Some(Entry { application: application.to_owned(), text: text.to_owned() })
}
