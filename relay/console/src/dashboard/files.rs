//! Serves the page's files, which are part of the binary.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};

use super::Dashboard;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// Lists name, type and contents of each file.
macro_rules! files {
    ($($name:literal $kind:ident $path:literal),+ $(,)?) => {
        &[$(($name, $kind, include_str!(concat!("page/", $path)))),+]
    };
}

const SVG: &str = "image/svg+xml";
const FILES: &[(&str, &str, &str)] = files![
    "" HTML "index.html",
    "style.css" CSS "style.css",
    "uplot.css" CSS "uplot/uPlot.min.css",
    "uplot.js" JS "uplot/uPlot.iife.min.js",
    "icon.svg" SVG "icon.svg",
    "main.js" JS "main.js",
    "actions.js" JS "actions.js",
    "api.js" JS "api.js",
    "audit.js" JS "audit.js",
    "charts.js" JS "charts.js",
    "dom.js" JS "dom.js",
    "events.js" JS "events.js",
    "failed.js" JS "failed.js",
    "format.js" JS "format.js",
    "keys.js" JS "keys.js",
    "live.js" JS "live.js",
    "overview.js" JS "overview.js",
    "relays.js" JS "relays.js",
    "signin.js" JS "signin.js",
];

/// Returns a route for each file below `prefix`, and a redirect from the prefix without its slash.
pub(super) fn routes(prefix: &str) -> Router<Arc<Dashboard>> {
    let routes = FILES.iter().fold(Router::new(), |routes, &(name, kind, text)| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let tag = format!("\"{:x}\"", hasher.finish());
        let serve = move |headers: HeaderMap| std::future::ready(file(&headers, kind, text, &tag));
        routes.route(&format!("{prefix}/{name}"), get(serve))
    });
    match prefix.rsplit_once('/') {
        Some((_, last)) => {
            let slash = format!("{last}/"); // relative, so that it is also right behind a proxy
            routes.route(prefix, get(move || std::future::ready(Redirect::permanent(&slash))))
        }
        None => routes,
    }
}

/// Answers with a file. Browsers keep files, and ask each time by the tag whether theirs is still current.
fn file(headers: &HeaderMap, kind: &'static str, text: &'static str, tag: &str) -> Response {
    let kept = [(header::ETAG, tag.to_owned()), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    (kept, [(header::CONTENT_TYPE, kind)], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test finds files that are missing from the list; otherwise only a browser would.
    #[test]
    fn every_file_of_the_page_is_served_and_everything_it_names_is_there() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/dashboard/page");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !["index.html", "uplot"].contains(&name.as_str()) {
                assert!(FILES.iter().any(|(known, ..)| *known == name), "{name} is not served");
            }
        }
        for (name, _, text) in FILES.iter().filter(|(_, kind, _)| *kind == JS).filter(|(name, ..)| *name != "uplot.js")
        {
            for import in
                text.split("from './").skip(1).filter_map(|rest| rest.split_once('\'')).map(|(import, _)| import)
            {
                assert!(FILES.iter().any(|(known, ..)| *known == import), "{name} imports {import}");
            }
            for danger in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://"]
            {
                assert!(!text.contains(danger), "{name} has {danger}");
            }
        }
    }
}
