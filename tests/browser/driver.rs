//! A real browser, driven by WebDriver: chromedriver and Chromium of Debian. Knows no page.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::wait::eventually;

const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one tab. Dropping it ends it.
pub struct Driver {
    driver: Child,
    address: String,
    session: String,
}

impl Driver {
    pub fn new() -> Driver {
        Driver::with(json!({}))
    }

    /// One that runs no script of a page.
    pub fn without_scripts() -> Driver {
        Driver::with(json!({"profile.managed_default_content_settings.javascript": 2}))
    }

    fn with(prefs: Value) -> Driver {
        let mut command = Command::new("chromedriver");
        let started = command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut driver = started.expect("chromedriver of Debian's chromium-driver is needed");
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, port) = line.split_once("successfully on port ")?;
            Some(port.trim_end_matches('.').to_owned())
        });
        // It goes on writing, and nobody reads: it must not wait for that.
        std::thread::spawn(move || lines.for_each(drop));
        let address = format!("127.0.0.1:{}", port.expect("chromedriver says its port"));
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--window-size=1280,900",
        ];
        let mut this = Driver { driver, address, session: String::new() };
        let options = json!({"args": args, "prefs": prefs});
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let begun = this.send("POST", "/session", &capabilities).unwrap();
        this.session = format!("/session/{}", begun["sessionId"].as_str().unwrap());
        this
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (status, answer) = self.exchange(request.as_bytes()).expect("chromedriver answers");
        let value = answer["value"].clone();
        match status.as_str() {
            "200" => Ok(value),
            _ => Err(format!("{path}: {}: {}", value["error"], value["message"])),
        }
    }

    /// Status and body. chromedriver does not end a connection when it is asked to.
    fn exchange(&self, request: &[u8]) -> std::io::Result<(String, Value)> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
        stream.write_all(request)?;
        let (mut lines, mut line, mut length) = (BufReader::new(stream), String::new(), 0);
        lines.read_line(&mut line)?;
        let status = line.split(' ').nth(1).unwrap_or_default().to_owned();
        while line != "\r\n" {
            line.clear();
            lines.read_line(&mut line)?;
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body)?;
        Ok((status, serde_json::from_slice(&body)?))
    }

    fn post(&self, path: &str, body: Value) -> Result<Value, String> {
        self.send("POST", &format!("{}{path}", self.session), &body)
    }

    fn get(&self, path: &str) -> Result<Value, String> {
        self.send("GET", &format!("{}{path}", self.session), &Value::Null)
    }

    pub fn go(&self, url: &str) {
        self.post("/url", json!({"url": url})).unwrap();
    }

    pub fn url(&self) -> String {
        self.get("/url").unwrap().as_str().unwrap().to_owned()
    }

    pub fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({"script": script, "args": []})).unwrap()
    }

    /// The text that people see.
    pub fn text(&self) -> String {
        self.script("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page shows this.
    pub fn shows(&self, wanted: &str) {
        eventually(|| self.text(), |text| text.contains(wanted));
    }

    pub fn shows_no(&self, wanted: &str) {
        eventually(|| self.text(), |text| !text.contains(wanted));
    }

    fn find(&self, css: &str) -> Result<String, String> {
        let found = self.post("/element", json!({"using": "css selector", "value": css}))?;
        Ok(format!("/element/{}", found[ELEMENT].as_str().unwrap()))
    }

    /// Clicks as soon as it can be clicked; a part of the page may be replaced meanwhile.
    pub fn click(&self, css: &str) {
        let click = || self.post(&format!("{}/click", self.find(css)?), json!({}));
        eventually(click, |clicked| clicked.is_ok()).unwrap();
    }

    /// Clicks on the one with this text.
    pub fn click_on(&self, css: &str, text: &str) {
        let path = format!("//{css}[normalize-space(.)={}]", json!(text));
        let click = || {
            let found = self.post("/element", json!({"using": "xpath", "value": path}))?;
            let id = found[ELEMENT].as_str().unwrap();
            self.post(&format!("/element/{id}/click"), json!({}))
        };
        eventually(click, |clicked| clicked.is_ok()).unwrap();
    }

    pub fn type_into(&self, css: &str, text: &str) {
        let typed = || self.post(&format!("{}/value", self.find(css)?), json!({"text": text}));
        eventually(typed, |typed| typed.is_ok()).unwrap();
    }

    /// Presses keys, whatever has the focus.
    pub fn press(&self, keys: &str) {
        let each = keys.chars().flat_map(|key| {
            let key = key.to_string();
            [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
        });
        let actions: Vec<Value> = each.collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.post("/actions", json!({"actions": [keyboard]})).unwrap();
    }

    /// Says yes to what a script asks, and gives the question.
    pub fn accept(&self) -> String {
        let asked = eventually(|| self.get("/alert/text"), |asked| asked.is_ok()).unwrap();
        self.post("/alert/accept", json!({})).unwrap();
        asked.as_str().unwrap().to_owned()
    }

    fn devtools(&self, command: &str, params: Value) {
        self.post("/goog/cdp/execute", json!({"cmd": command, "params": params})).unwrap();
    }

    pub fn size(&self, width: u32, height: u32) {
        let params = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", params);
    }

    pub fn dark(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let feature = json!({"name": "prefers-color-scheme", "value": value});
        self.devtools("Emulation.setEmulatedMedia", json!({"features": [feature]}));
    }

    /// The picture, as PNG.
    pub fn picture(&self) -> Vec<u8> {
        let picture = self.get("/screenshot").unwrap();
        STANDARD.decode(picture.as_str().unwrap()).unwrap()
    }

    /// What the browser complains of, since it was asked last: errors of scripts, what the policy
    /// stops, what cannot be loaded.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", json!({"type": "browser"})).unwrap();
        let entries = log.as_array().unwrap().iter();
        entries.map(|entry| format!("{}: {}", entry["level"], entry["message"])).collect()
    }

    pub fn is_content(&self) {
        assert_eq!(self.complaints(), Vec::<String>::new(), "{}", self.url());
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            self.send("DELETE", &self.session, &Value::Null).ok();
        }
        self.driver.kill().ok();
        self.driver.wait().ok();
    }
}
