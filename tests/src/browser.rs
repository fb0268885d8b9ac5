//! A headless Chromium, driven through the DevTools protocol (<https://chromedevtools.github.io/devtools-protocol/>)
//! over a pipe.
#![expect(clippy::indexing_slicing, reason = "of JSON, which is null where there is nothing")]

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::oneshot,
};

use crate::{
    SOON, eventually,
    places::{installed, server_folder},
};

/// A browser with one page. It ends with this, or with our process, which closes the pipe.
#[derive(Debug)]
pub struct Browser {
    _process: Child,
    pipe: tokio::sync::Mutex<ChildStdin>,
    shared: Arc<Mutex<Shared>>,
    session: String,
}

#[derive(Debug, Default)]
struct Shared {
    last_id: u64,
    waiting: HashMap<u64, oneshot::Sender<Value>>,
    /// What the page complained of: errors in its console, exceptions, what its policy has refused.
    complaints: Vec<String>,
}

impl Browser {
    /// `None`: it is not installed.
    pub fn program() -> Option<PathBuf> {
        installed("chromium", "/usr/bin")
    }

    /// Starts one with an empty page.
    ///
    /// # Panics
    /// Where it is not installed or does not start.
    pub async fn start() -> Self {
        let program = Self::program().expect("Chromium is installed");
        let folder = server_folder("browser");
        // The protocol's pipe is on descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>&2 2>chromium.log", "sh"]).arg(program);
        command.args([
            "--headless",
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ]);
        command.args([
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ]);
        if rustix::process::geteuid().is_root() {
            command.arg("--no-sandbox"); // root has no other choice; it loads pages of ours only
        }
        command
            .arg(format!("--user-data-dir={}", folder.join("profile").display()))
            .arg("about:blank")
            .current_dir(&folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap_or_else(|e| panic!("cannot start Chromium: {e}"));
        let (stdin, stdout) = (process.stdin.take().expect("piped"), process.stdout.take().expect("piped"));
        let shared = Arc::new(Mutex::new(Shared::default()));
        tokio::spawn(read(stdout, Arc::clone(&shared)));
        let mut browser =
            Self { _process: process, pipe: tokio::sync::Mutex::new(stdin), shared, session: String::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" })).await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach).await;
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({})).await;
        }
        browser
    }

    /// Opens an address, and waits until it is loaded.
    pub async fn open(&self, url: &str) {
        let opened = self.call("Page.navigate", json!({ "url": url })).await;
        assert!(opened.get("errorText").is_none(), "{url}: {opened}");
        self.wait_for("document.readyState === 'complete'").await;
    }

    /// Sets the size of the page's window, and dark or light.
    pub async fn looks(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size).await;
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", media).await;
    }

    /// The value of an expression, which may be a promise.
    ///
    /// # Panics
    /// When it throws.
    pub async fn value(&self, expression: &str) -> Value {
        self.evaluate(expression).await.unwrap_or_else(|thrown| panic!("{expression}: {thrown}"))
    }

    /// The value of an expression, or what it throws.
    async fn evaluate(&self, expression: &str) -> Result<Value, Value> {
        let ask = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true });
        let answer = self.call("Runtime.evaluate", ask).await;
        if answer.get("exceptionDetails").is_some() { Err(answer) } else { Ok(answer["result"]["value"].clone()) }
    }

    /// Waits until an expression is true ([`SOON`]). One that throws is not true yet: what it looks at may still come.
    pub async fn wait_for(&self, expression: &str) {
        eventually(&format!("in the browser: {expression}"), SOON, async || match self.evaluate(expression).await {
            Ok(Value::Bool(true)) => Ok(()),
            Ok(_) => Err(self.text("body").await),
            Err(thrown) => Err(thrown.to_string()),
        })
        .await;
    }

    /// The text that a person sees in the first element that fits the selector.
    pub async fn text(&self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({})?.innerText ?? ''", json!(selector))).await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the element has this in its text ([`SOON`]).
    pub async fn sees(&self, selector: &str, text: &str) {
        self.wait_for(&format!(
            "(document.querySelector({})?.innerText ?? '').includes({})",
            json!(selector),
            json!(text)
        ))
        .await;
    }

    /// Clicks the first button or link with this text, once it is there.
    pub async fn click(&self, text: &str) {
        let found = format!(
            "[...document.querySelectorAll('button, a')].find((element) => element.innerText.trim() === {} && element.getClientRects().length > 0)",
            json!(text)
        );
        self.wait_for(&format!("Boolean({found})")).await;
        self.value(&format!("{found}.click()")).await;
    }

    /// Types into a field.
    pub async fn fill(&self, selector: &str, text: &str) {
        self.wait_for(&format!("Boolean(document.querySelector({}))", json!(selector))).await;
        self.value(&format!("document.querySelector({}).focus()", json!(selector))).await;
        self.call("Input.insertText", json!({ "text": text })).await;
    }

    /// Presses a key, as `"/"` or `"Enter"`.
    pub async fn press(&self, key: &str) {
        let text = if key == "Enter" { "\r" } else { key };
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyDown", "key": key, "text": text })).await;
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key })).await;
    }

    /// A picture of the whole page, into a PNG file.
    pub async fn picture(&self, path: &Path) {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" })).await;
        let bytes = decode_base64(picture["data"].as_str().expect("base64"));
        std::fs::write(path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// What the page has complained of: errors, exceptions, what its policy has refused.
    ///
    /// # Panics
    /// Never: nobody panics while it is locked.
    pub fn complaints(&self) -> Vec<String> {
        self.shared.lock().expect("no panic while locked").complaints.clone()
    }

    /// Calls a method of the protocol.
    ///
    /// # Panics
    /// When it is refused, or not answered in time.
    pub async fn call(&self, method: &str, parameters: Value) -> Value {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut shared = self.shared.lock().expect("no panic while locked");
            shared.last_id += 1;
            let id = shared.last_id;
            shared.waiting.insert(id, sender);
            id
        };
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.pipe.lock().await.write_all(&bytes).await.unwrap_or_else(|e| panic!("Chromium has ended: {e}"));
        let answer = tokio::time::timeout(Duration::from_secs(60), answer).await;
        let answer = answer
            .unwrap_or_else(|_| panic!("Chromium does not answer {method}"))
            .unwrap_or_else(|_| panic!("Chromium has ended at {method}"));
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }
}

/// Hands answers to those who wait for them, and notes complaints.
async fn read(pipe: ChildStdout, shared: Arc<Mutex<Shared>>) {
    let mut pipe = BufReader::new(pipe);
    let mut bytes = Vec::new();
    while matches!(pipe.read_until(0, &mut bytes).await, Ok(1..)) {
        bytes.pop();
        let message: Value = serde_json::from_slice(&bytes).expect("JSON of Chromium");
        bytes.clear();
        let mut shared = shared.lock().expect("no panic while locked");
        if let Some(waiting) = message["id"].as_u64().and_then(|id| shared.waiting.remove(&id)) {
            let _ = waiting.send(message); // nobody waits for it any more
            continue;
        }
        let parameters = &message["params"];
        let complaint = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(parameters["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") if parameters["type"] == "error" => Some(parameters["args"].to_string()),
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => Some(parameters["entry"].to_string()),
            _ => None,
        };
        shared.complaints.extend(complaint);
    }
    shared.lock().expect("no panic while locked").waiting.clear();
}

fn decode_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(digit).map(u32::from).collect();
    let groups = digits.chunks(4).flat_map(|group| {
        let bits = group.iter().enumerate().fold(0, |bits, (place, digit)| bits | digit << (18 - 6 * place));
        let [_, bytes @ ..] = bits.to_be_bytes();
        bytes.into_iter().take(group.len() - 1)
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_and_without_a_rest() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg==", b"foob"),
            ("/+8=", b"\xff\xef"),
        ] {
            assert_eq!(decode_base64(text), bytes, "{text}");
        }
    }
}
