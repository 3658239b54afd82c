//! Users and their rights: `[[users]]`, AUTH and HELLO with a name, ACL, and the matrix of who may
//! run what.

use crate::peer::{Peer, Place};
use crate::support::broker::{Broker, run};
use crate::support::redis;
use crate::support::resp::{Client, Value};
use crate::support::users::{File, HASH, PASSWORD, user};
use crate::support::wait::eventually;
use delay_broker::command::{Categories, Category, Flag, Group, Spec, TABLE};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

pub fn place(file: &File, more: &[&str]) -> Place {
    let database = redis::shared().fresh_database();
    let url = redis::shared().url(database);
    let config = file.args();
    let args = [&["--redis", &url, &config[0], &config[1]], more].concat();
    Place { broker: Broker::with_args(&args, &[]), database }
}

fn log_in(broker: &Broker, name: &str) -> Client {
    let mut client = broker.client();
    assert_eq!(client.call(&["AUTH", name, PASSWORD]).unwrap().text(), "OK", "{name}");
    client
}

fn says(client: &mut Client, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match client.call(&words).unwrap() {
        Value::Error(text) => text,
        other => format!("{other:?}"),
    }
}

/// A user of the matrix.
pub struct Row {
    pub name: String,
    categories: Vec<Category>,
    payloads: bool,
    all_queues: bool,
}

/// One without rights, one for each category alone, one with all of them; each with the queues
/// `a.*` and with all, each with payloads and without.
pub fn matrix() -> Vec<Row> {
    let alone = [Category::Read, Category::Write, Category::Admin, Category::Dangerous];
    let mut sets: Vec<Vec<Category>> = alone.iter().map(|one| vec![*one]).collect();
    sets.extend([Vec::new(), alone.to_vec()]);
    let mut rows = Vec::new();
    for (place, categories) in sets.iter().enumerate() {
        for (payloads, all_queues) in [(true, true), (true, false), (false, true), (false, false)] {
            let name = format!("u{place}-{}-{}", u8::from(payloads), u8::from(all_queues));
            rows.push(Row { name, categories: categories.clone(), payloads, all_queues });
        }
    }
    rows
}

/// Commands that need no right, since they show and change nothing of any queue.
const FOR_ALL: [&str; 16] = [
    "PING", "ECHO", "QUIT", "RESET", "SELECT", "HELLO", "AUTH", "CLIENT", "TIME", "COMMAND",
    "DQ.HELP", "ACL", "MULTI", "EXEC", "DISCARD", "POST",
];

/// The beginning of the error that the user gets for the command, if it gets one of the gate.
/// `form`: the words of a form of its own, as `DQ.CANCEL MATCH`.
pub fn refusal(
    spec: &Spec,
    word: Option<&str>,
    form: Option<&str>,
    row: &Row,
    queue: &str,
) -> Option<&'static str> {
    let more = word.and_then(|word| spec.words.iter().find(|(known, _)| *known == word));
    let needs = more.map_or(spec.categories, |(_, more)| spec.categories.and(*more));
    let open = FOR_ALL.contains(&spec.name) || spec.group == Group::Refused;
    assert_eq!(spec.categories == Categories::NONE, open, "{spec:?} needs no right");
    let own = Categories::of(&row.categories).and(Categories::of(&[Category::Payload]));
    let lacks = |needs: Categories| match needs.has(Category::Payload) && !row.payloads {
        _ if !own.covers(needs) => Some("permissions to run the"),
        true => Some("permissions to see payloads"),
        false => None,
    };
    let outside = !row.all_queues && (more.is_some() || !queue.starts_with("a."));
    let outside = spec.group == Group::Queue && outside;
    let form = form.and_then(|form| spec.forms.iter().find(|(known, _)| *known == form));
    lacks(needs)
        .or(outside.then_some("permissions to access the queue"))
        .or(form.and_then(|(_, more)| lacks(needs.and(*more))))
}

/// The tables of these users.
pub fn tables(rows: &[Row]) -> String {
    let words = [
        (Category::Read, "+@read"),
        (Category::Write, "+@write"),
        (Category::Admin, "+@admin"),
        (Category::Dangerous, "+@dangerous"),
    ];
    let tables = rows.iter().map(|row| {
        let has = words.iter().filter(|(category, _)| row.categories.contains(category));
        let commands: Vec<&str> = has.map(|(_, word)| *word).collect();
        let queues = if row.all_queues { "*" } else { "a.*" };
        let (commands, payloads) = (format!("{commands:?}"), row.payloads);
        user(
            &row.name,
            &format!("commands = {commands}\nqueues = [{queues:?}]\npayloads = {payloads}"),
        )
    });
    tables.collect()
}

/// Every command of the table, whoever asks: nothing can be reached that is not given. A command
/// that is added is in it.
#[test]
fn the_matrix_of_rights() {
    let rows = matrix();
    let place = place(&File::new(&tables(&rows)), &[]);
    let mut refused = 0;
    for spec in TABLE {
        let first = if spec.group == Group::Queue { vec!["a.x", "b.x"] } else { vec![""] };
        let firsts = first.iter().map(|first| (*first, None, None));
        let by_word = spec.words.iter().map(|(word, _)| (*word, Some(*word), None));
        let by_form = spec
            .forms
            .iter()
            .flat_map(|(form, _)| first.iter().map(move |first| (*first, None, Some(*form))));
        for (first, word, form) in firsts.chain(by_word).chain(by_form) {
            let mut request: Vec<&str> =
                [spec.name, first].into_iter().filter(|part| !part.is_empty()).collect();
            if let Some(form) = form {
                // What the form is about, and a delay where it needs one.
                let delay = if spec.name == "DQ.RESCHEDULE" { &["1h"][..] } else { &[] };
                request.extend(["MATCH", "*"].iter().chain(delay));
                request.extend(form.split(' ').skip(2));
            }
            let mut anonymous = place.broker.client();
            // Some close the connection instead of an answer.
            let said = anonymous.call(&request).map(|reply| reply.text()).unwrap_or_default();
            let open = spec.flags.has(Flag::NoAuth);
            assert_eq!(said.starts_with("NOAUTH Authentication"), !open, "{request:?}: {said}");
            for row in &rows {
                let mut client = log_in(&place.broker, &row.name);
                let said = client.call(&request).map(|reply| match reply {
                    Value::Error(text) => text,
                    _ => String::new(),
                });
                let said = said.unwrap_or_default();
                let about = format!("{} says {request:?}: {said}", row.name);
                match refusal(spec, word, form, row, first) {
                    Some(wanted) => {
                        let user = format!("NOPERM User {} has no {wanted}", row.name);
                        assert!(said.starts_with(&user), "{about}");
                        let named = if wanted.ends_with("queue") { first } else { spec.name };
                        assert!(said.to_lowercase().contains(&named.to_lowercase()), "{about}");
                        refused += 1;
                    }
                    None => assert!(!said.starts_with("NOPERM"), "{about}"),
                }
            }
        }
    }
    assert!(refused > 500, "{refused}");
}

/// Queues and rights beyond the first argument.
#[test]
fn each_queue_that_is_named_counts() {
    let rights = "commands = ['+@read', '+@write', '+@admin', '-DQ.REMOVE']\n\
                  queues = ['a.*', '\\*']\npayloads = true";
    let file = File::new(&(user("ann", rights) + &user("all", &rights.replace("\\*", "*"))));
    let place = place(&file, &[]);
    let mut all = log_in(&place.broker, "all");
    for queue in ["a.1", "b.1", "a.2", "b.2", "*"] {
        assert_eq!(all.call(&["DQ.OFFER", queue, "1h", "p"]).unwrap().bytes().len(), 30);
    }
    let mut ann = log_in(&place.broker, "ann");
    let rows = [
        (
            "DQ.TAKE a.1 ALSO a.2 b.1",
            "NOPERM User ann has no permissions to access the queue 'b.1'",
        ),
        ("DQ.TAKE a.1 ALSO a.2", "null"),
        ("DQ.REMOVE a.1 p", "NOPERM User ann has no permissions to run the 'dq.remove' command"),
        ("DQ.PAUSE ALL", "NOPERM User ann has no permissions to run the 'dq.pause' command"),
        // A queue of this name, and not all of them.
        ("DQ.SIZE *", "1"),
        ("MULTI", "+OK"),
        ("DQ.OFFER a.1 1h p", "+QUEUED"),
        ("DQ.OFFER b.1 1h p", "NOPERM User ann has no permissions to access the queue 'b.1'"),
        ("EXEC", "EXECABORT Transaction discarded because of previous errors."),
        ("DQ.SIZE a.1", "1"),
    ];
    for (line, wanted) in rows {
        let said = says(&mut ann, line);
        assert!(said.starts_with(wanted) || said.ends_with(wanted), "{line}: {said}");
    }
    // Listings have the queues that match, page by page.
    let listed = |client: &mut Client, cursor: &str| {
        let reply = client.call(&["DQ.QUEUES", "COUNT", "2", "CURSOR", cursor]).unwrap();
        let names = reply.elements()[1].elements().iter().map(|row| row.elements()[1].text());
        (reply.elements()[0].text(), names.collect::<Vec<_>>())
    };
    let all_of = |client: &mut Client| {
        let (mut cursor, mut names) = ("0".to_owned(), Vec::new());
        loop {
            let (next, page) = listed(client, &cursor);
            names.extend(page);
            if next == "0" {
                names.sort();
                return names;
            }
            cursor = next;
        }
    };
    assert_eq!(all_of(&mut all), ["*", "a.1", "a.2", "b.1", "b.2"]);
    assert_eq!(all_of(&mut ann), ["*", "a.1", "a.2"]);
    let matched = ann.call(&["DQ.QUEUES", "MATCH", "?.1"]).unwrap();
    assert_eq!(matched.elements()[1].elements().len(), 1);
    let info = |client: &mut Client| client.call(&["INFO", "queues"]).unwrap().text();
    let seen = eventually(|| info(&mut all), |text| text.contains("name=b.2"));
    assert!(seen.contains("name=a.1"));
    let own = info(&mut ann);
    assert!(own.contains("name=a.1") && !own.contains("name=b."), "{own}");
    // COMMAND lists what it may run.
    let commands = ann.call(&["COMMAND", "LIST"]).unwrap().texts();
    for (name, may) in [("dq.offer", true), ("ping", true), ("dq.remove", false), ("config", false)]
    {
        assert_eq!(commands.iter().any(|known| known == name), may, "{name}");
        let info = ann.call(&["COMMAND", "INFO", name]).unwrap();
        assert_eq!(info.elements()[0] != Value::Null, may, "{name}: {info:?}");
    }
    let count = ann.call(&["COMMAND", "COUNT"]).unwrap().int();
    assert_eq!(count as usize, commands.len());
    assert_eq!(ann.call(&["COMMAND"]).unwrap().elements().len(), commands.len());
    assert_eq!(ann.call(&["COMMAND", "DOCS"]).unwrap().elements().len(), 2 * commands.len());
}

#[test]
fn who_one_is() {
    let rights = "commands = ['+@admin', '+PING', '-DQ.SETUP']\nqueues = ['a.*', 'b']";
    let file = File::new(
        &(user("ann", rights)
            + &user("bob", "commands = ['+@all']\nqueues = ['*']\npayloads = true")
            + &user("eve", "")
            + "[server]\npassword = 'of-all'\n"),
    );
    let place = place(&file, &[]);
    let mut peer = place.peer();
    peer.sends(
        "ACL WHOAMI\r\nAUTH ann wrong\r\nAUTH nobody right\r\nAUTH right\r\nAUTH default of-all\r\n\
         ACL WHOAMI\r\nAUTH ann right\r\nACL WHOAMI\r\nHELLO 3 AUTH bob right SETNAME me\r\n",
    );
    peer.gets(&format!(
        "-NOAUTH Authentication required.\r\n{}+OK\r\n$7\r\ndefault\r\n+OK\r\n$3\r\nann\r\n\
         %7\r\n«lines»modules\r\n*0\r\n",
        WRONG.repeat(3)
    ));
    peer.sends("ACL WHOAMI\r\nCLIENT GETNAME\r\nRESET\r\nPING\r\nAUTH ann right\r\n");
    peer.gets("$3\r\nbob\r\n$2\r\nme\r\n+RESET\r\n-NOAUTH Authentication required.\r\n+OK\r\n");
    peer.sends("ACL LIST\r\n");
    peer.gets(
        "*4\r\n$59\r\nuser ann on #(hidden) ~a.* ~b -@all +@admin -dq.setup +ping\r\n\
         $30\r\nuser bob on #(hidden) ~* +@all\r\n$34\r\nuser default on #(hidden) ~* +@all\r\n\
         $27\r\nuser eve on #(hidden) -@all\r\n",
    );
    peer.sends("ACL GETUSER ann\r\nACL GETUSER nobody\r\nACL CAT\r\nACL CAT dangerous\r\n");
    let rights = "-@all +@admin -dq.setup +ping";
    peer.gets(&format!(
        "*12\r\n$5\r\nflags\r\n*1\r\n$2\r\non\r\n$9\r\npasswords\r\n*1\r\n$8\r\n(hidden)\r\n\
         $8\r\ncommands\r\n${}\r\n{rights}\r\n$4\r\nkeys\r\n$7\r\n~a.* ~b\r\n$8\r\nchannels\r\n\
         $0\r\n\r\n$9\r\nselectors\r\n*0\r\n$-1\r\n*5\r\n$4\r\nread\r\n$5\r\nwrite\r\n\
         $5\r\nadmin\r\n\
         $9\r\ndangerous\r\n$7\r\npayload\r\n*2\r\n$8\r\ndq.clear\r\n$6\r\nconfig\r\n",
        rights.len()
    ));
    // Who is whom is seen by others, who may end all connections of one.
    let mut other = log_in(&place.broker, "bob");
    let list = other.call(&["CLIENT", "LIST"]).unwrap().text();
    assert!(list.contains(" user=ann ") && list.contains(" user=bob "), "{list}");
    let killed = other.call(&["CLIENT", "KILL", "USER", "ann"]).unwrap();
    assert_eq!(killed.int(), 1);
    peer.gets_end("");
    let mut eve = log_in(&place.broker, "eve");
    for line in ["ACL LIST", "ACL GETUSER eve", "CLIENT LIST"] {
        assert!(says(&mut eve, line).starts_with("NOPERM User eve has no permissions to run the"));
    }
}

/// Where users are, nobody is in without a password, and `default` is none of them without one.
#[test]
fn without_a_password_of_its_own() {
    let place = place(&File::new(&user("ann", "commands = ['+@read']")), &[]);
    let mut peer = place.peer();
    peer.sends("PING\r\nAUTH default x\r\nHELLO 3 AUTH default ''\r\nAUTH ann right\r\nPING\r\n");
    peer.gets(&format!("-NOAUTH Authentication required.\r\n{}+OK\r\n+PONG\r\n", WRONG.repeat(2)));
    peer.sends("AUTH x\r\n");
    peer.gets("-ERR AUTH <password> called without any password configured«text»\r\n");
    peer.sends("DQ.SIZE q\r\nACL LIST\r\n");
    let queue = "-NOPERM User ann has no permissions to access the queue 'q'\r\n";
    peer.gets(&format!("{queue}-NOPERM «text»\r\n"));
}

/// What is behind an AUTH on its connection waits for it, also while its hash takes long; what
/// others send does not.
#[test]
fn order_is_kept_while_a_password_is_verified() {
    let made = made_hash("a long one\n");
    let table = user("ann", "commands = ['+@all']\nqueues = ['*']").replace(HASH, &made);
    let place = place(&File::new(&(table + "[server]\npassword = 'of-all'\n")), &[]);
    let mut peer = place.peer();
    let long = "x".repeat(20_000);
    peer.sends("DQ.SIZE «q»\r\n*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$10\r\na long one\r\n");
    // More than who is not authenticated may send, and the end of one connection after it.
    peer.sends(format!("ACL WHOAMI\r\n*2\r\n$4\r\nECHO\r\n$20000\r\n{long}\r\n"));
    peer.sends("*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$10\r\nnot it at.\r\nACL WHOAMI\r\nQUIT\r\n");
    let mut quick = place.peer();
    quick.sends("AUTH of-all\r\nPING\r\n");
    quick.gets("+OK\r\n+PONG\r\n");
    let refused = "-NOAUTH Authentication required.\r\n";
    peer.gets_end(&format!(
        "{refused}+OK\r\n$3\r\nann\r\n$20000\r\n{long}\r\n{WRONG}$3\r\nann\r\n+OK\r\n"
    ));
    // A client that leaves meanwhile, and replies that are not wanted.
    let mut leaves = place.peer();
    leaves.sends("*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$10\r\nnever it. \r\nQUIT\r\n");
    leaves.gets_end(&format!("{WRONG}+OK\r\n"));
    let mut silent = place.peer();
    silent.sends("*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$10\r\na long one\r\n");
    silent.sends("CLIENT REPLY SKIP\r\nAUTH of-all\r\nACL WHOAMI\r\nCLIENT REPLY OFF\r\n");
    silent.sends("*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$10\r\na long one\r\n");
    silent.sends("CLIENT REPLY ON\r\nACL WHOAMI\r\n");
    silent.gets("+OK\r\n$7\r\ndefault\r\n+OK\r\n$3\r\nann\r\n");
}

/// Guesses of one address do not keep others out, and it gets a busy answer at the worst.
#[test]
fn guesses_for_one_user_hold_up_nobody_else() {
    let made = made_hash("a long one\n");
    let slow = user("ann", "commands = ['+@read']").replace(HASH, &made);
    let place = place(&File::new(&(slow + &user("bob", ""))), &[]);
    let mut guesses: Vec<Peer> = (0..80).map(|_| place.peer()).collect();
    for (n, peer) in guesses.iter_mut().enumerate() {
        peer.sends(format!("AUTH ann guess-{n}\r\n"));
    }
    let mut busy = 0;
    for peer in &mut guesses {
        let said = peer.gets("-«text»\r\n").concat();
        let is_busy = said == "ERR busy verifying other passwords; try again";
        assert!(is_busy || WRONG.contains(&said), "{said}");
        busy += usize::from(is_busy);
    }
    guesses.into_iter().for_each(Peer::leave);
    assert!(busy > 0, "few of one address wait");
    // The right one, as soon as there is a place; from then on guesses cost nothing.
    let enters = |name: &str, password: &str| {
        place.broker.client().call(&["AUTH", name, password]).unwrap().text()
    };
    eventually(|| enters("ann", "a long one"), |said| said == "OK");
    eventually(|| enters("bob", "right"), |said| said == "OK");
    let log = place.broker.log();
    assert!(log.contains(r#""user":"ann""#), "{log}");
    assert!(!log.contains("guess-") && !log.contains("a long one"), "{log}");
}

fn made_hash(input: &str) -> String {
    let mut made = Command::new(env!("CARGO_BIN_EXE_delay-broker"))
        .arg("hash")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    made.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let made = made.wait_with_output().unwrap();
    let said = String::from_utf8([made.stdout, made.stderr].concat()).unwrap();
    assert_eq!(made.status.success(), said.starts_with("$argon2id$"), "{said}");
    said.trim_end().to_owned()
}

#[test]
fn hashes_are_made_of_the_input() {
    assert_ne!(made_hash("secret-4711\n"), made_hash("secret-4711"), "the salt differs");
    for input in ["", "\n", &"x".repeat(20_000)] {
        let said = made_hash(input);
        assert!(said.starts_with("delay-broker: the password must not"), "{said}");
    }
    let (status, said) = run(&["hash", "secret-4711"], &[]);
    assert_eq!(status.code(), Some(64), "{said}");
}

/// A terminal is asked twice, and shows nothing of what is typed. Behind it, it is as before.
#[test]
fn a_terminal_shows_no_password() {
    for (again, wanted) in [
        ("secret-4711\n", "$argon2id$"),
        ("secret-4712\n", "are not the same"),
        ("sec\x03", "it was interrupted"),
    ] {
        let broker = env!("CARGO_BIN_EXE_delay-broker");
        let command = format!("{broker} hash; stty -a | grep -o ' -*echo '");
        let mut terminal = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut keys, mut screen) =
            (terminal.stdin.take().unwrap(), terminal.stdout.take().unwrap());
        let mut shown = String::new();
        for (prompt, typed) in [("Password: ", "secret-4711\n"), ("Again: ", again)] {
            while !shown.ends_with(prompt) {
                let mut byte = [0];
                screen.read_exact(&mut byte).unwrap();
                shown.push(char::from(byte[0]));
            }
            write!(keys, "{typed}").unwrap();
        }
        screen.read_to_string(&mut shown).unwrap();
        terminal.wait().unwrap();
        assert!(shown.contains(wanted) && !shown.contains("471"), "{shown}");
        assert!(shown.ends_with(" echo \r\n"), "{shown}");
    }
}
