//! Users of tests: a file with `[[users]]`, and hashes that take microseconds to verify.

use std::path::PathBuf;

use tempfile::TempDir;

/// Of the password `right`, with the least memory and passes that there are.
pub const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRyaWdo$H5HWU9wN/c5Tb0k6ta0eUQ";
pub const PASSWORD: &str = "right";

/// A table of a user that has [`PASSWORD`]; `rest` has its other keys, a line each.
pub fn user(name: &str, rest: &str) -> String {
    format!("[[users]]\nname = {name:?}\npassword_hash = {HASH:?}\n{rest}\n")
}

/// A file that a broker may be started with.
pub struct File {
    dir: TempDir,
}

impl File {
    pub fn new(text: &str) -> File {
        let file = File { dir: tempfile::tempdir().unwrap() };
        file.write(text);
        file
    }

    pub fn write(&self, text: &str) {
        std::fs::write(self.path(), text).unwrap();
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("broker.toml")
    }

    /// `--config` with it.
    pub fn args(&self) -> [String; 2] {
        ["--config".to_owned(), self.path().to_str().unwrap().to_owned()]
    }
}
