//! What commands get, and what their ends mean.

use crate::stage::{Stage, call, eventually, info, offer};
use crate::support::random::Random;
use crate::taking::{dead, held, take_one};
use crate::worker::{Worker, acked, patiently, waiting};

#[test]
fn exit_codes() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let script = r#"
        case "$(cat)" in
        ok) echo "not said" >&2 ;;
        data) echo "first" >&2; echo "no such order" >&2; exit 65 ;;
        mute) exit 65 ;;
        temp) printf 'come \033[1mlater' >&2; exit 75 ;;
        one) exit 1 ;;
        signal) kill -9 $$ ;;
        deaf) trap '' TERM; sleep 61 & echo $! > "$DIR/deaf"; wait; wait; sleep 62 ;;
        slow) sleep 63 & echo $! > "$DIR/slow"; wait ;;
        esac"#;
    let mut worker = Worker::runs(&stage, &["--timeout", "1s"], script);
    let payloads = ["ok", "data", "mute", "temp", "one", "signal", "slow", "deaf"];
    for payload in payloads {
        offer(&mut client, &["q", "0", payload]);
    }
    acked(&mut client, 1);
    let reasons = ["come  [1mlater", "exit code 1", "signal 9", "timeout", "timeout"];
    let mut seen = patiently("five wait for a retry", || {
        let rows = waiting(&mut client);
        (rows.len() == reasons.len() && worker.log().matches("timeout").count() > 1).then_some(rows)
    });
    seen.sort_by(|a, b| a.2.cmp(&b.2));
    assert_eq!(seen.iter().map(|row| row.2.as_str()).collect::<Vec<_>>(), reasons);
    let mut died = dead(&mut client);
    died.sort();
    let expected = [("data", "no such order"), ("mute", "exit code 65")];
    assert_eq!(died, expected.map(|(payload, reason)| (payload.into(), 1, reason.into())));
    // Its children ended with it.
    for name in ["slow", "deaf"] {
        let pid = worker.read(name);
        eventually(name, || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            state.map_or(true, |state| state.contains(") Z ")).then_some(())
        });
    }
    assert_eq!(worker.stop(), 0);
    assert!(worker.log().contains("\"reason\":\"timeout\""), "{}", worker.log());
    assert!(!worker.log().contains("not said"));
}

/// With `--decode` a handler gets text, without it the bytes.
#[test]
fn payloads_as_text() {
    for (flags, got) in [(&["--decode"][..], &b"abc"[..]), (&[], b"\x03ab\xe3")] {
        let stage = Stage::new(&[]);
        let mut client = stage.broker.client();
        let mut worker = Worker::runs(&stage, flags, "cat > \"$DIR/got\"");
        offer(&mut client, &["q", "0", "abc", "AS", "kryo5"]);
        acked(&mut client, 1);
        assert_eq!(std::fs::read(worker.path("got")).unwrap(), got, "{flags:?}");
        assert_eq!(worker.stop(), 0);
    }
}

#[test]
fn a_program_that_is_missing_burns_nothing() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let broker = format!("redis://{}", stage.broker.address());
    offer(&mut client, &["q", "0", "a"]);
    let unfit = tempfile::NamedTempFile::new().unwrap();
    let file = unfit.path().to_str().unwrap();
    let rows: [&[&str]; 3] = [&["no-such-program"], &[file], &["/"]];
    for command in rows {
        let words = [&["q", "--broker", &broker, "--"], command].concat();
        let mut worker = Worker::start(&words, &[]);
        assert_eq!(worker.wait(), 69, "{command:?}: {}", worker.log());
        let log = worker.log();
        let said = log.lines().filter(|line| line.starts_with("delay-broker work: the command"));
        assert_eq!(said.count(), 1, "{log}");
    }
    assert_eq!(take_one(&mut client, "q BLOCK 5s").attempt, 1);
}

/// A shell says 127 for a program that it misses. That counts, so that one message which needs it
/// does not stop each worker for ever; and it ends a worker whose command has never worked.
#[test]
fn a_program_that_a_shell_misses() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let script = "[ \"$(cat)\" = bad ] && exec no-such-program; exit 0";
    offer(&mut client, &["q", "0", "bad"]);
    let mut worker = Worker::runs(&stage, &[], script);
    assert_eq!(worker.wait(), 69, "{}", worker.log());
    let seen = patiently("it waits", || Some(waiting(&mut client)).filter(|rows| !rows.is_empty()));
    assert!(seen.iter().all(|row| row.2.contains("no-such-program")), "{seen:?}");
    offer(&mut client, &["p", "0", "good"]);
    offer(&mut client, &["p", "0", "bad"]);
    let broker = format!("redis://{}", stage.broker.address());
    let words = ["p", "--broker", &broker, "--concurrency", "1", "--", "sh", "-c", script];
    let mut worker = Worker::start(&words, &[]);
    worker.has_logged("\"failed\"");
    assert_eq!(worker.stop(), 0);
}

#[test]
fn a_flood_fills_no_memory() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let script = "head -c 100000000 /dev/zero; head -c 90000000 /dev/zero >&2; \
                  yes | head -c 10000000 >&2; echo end >&2; exit 1";
    let mut worker = Worker::runs(&stage, &["--log", "debug"], script);
    worker.has_logged("connected");
    let before = worker.peak_bytes();
    offer(&mut client, &["q", "0", "x"]);
    let seen = patiently("it ended", || Some(waiting(&mut client)).filter(|rows| !rows.is_empty()));
    assert!(seen.iter().all(|row| row.2 == "end"), "{seen:?}");
    let grown = worker.peak_bytes() - before;
    assert!(grown < 16 << 20, "{grown} bytes");
    assert!(worker.log().len() < 4 << 20, "{} bytes of log", worker.log().len());
    assert_eq!(worker.stop(), 0);
}

#[test]
fn payload_and_facts_arrive_as_they_are() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let script = r#"
        if [ "$DQ_ATTEMPT" = 1 ] && [ ! -e "$DIR/env" ]; then
            env > "$DIR/new"; mv "$DIR/new" "$DIR/env"
        fi
        cat > "$DIR/$DQ_ID.part" && mv "$DIR/$DQ_ID.part" "$DIR/$DQ_ID""#;
    let secret = [("DELAY_BROKER_WORK_PASSWORD", "")];
    let broker = format!("redis://{}", stage.broker.address());
    let words = ["q", "--broker", &broker, "--", "sh", "-c", script];
    let mut worker = Worker::start(&words, &secret);
    let mut random = Random::new(7);
    let large: Vec<u8> = (0..16 << 20).map(|_| random.below(256) as u8).collect();
    let payloads = [large, Vec::new(), b"\0\r\n\xff".to_vec()];
    for payload in &payloads {
        client.call(&[b"DQ.OFFER", &b"q"[..], b"0", payload]).unwrap();
    }
    acked(&mut client, 3);
    let mut seen: Vec<Vec<u8>> = std::fs::read_dir(worker.path(""))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.file_name().unwrap().len() == 16)
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    seen.sort_by_key(|payload| std::cmp::Reverse(payload.len()));
    assert!(seen[0] == payloads[0], "the large one differs");
    assert_eq!(seen[1..], [payloads[2].clone(), payloads[1].clone()]);
    let env = worker.read("env");
    for line in ["DQ_QUEUE=q", "DQ_ATTEMPT=1", "DQ_ID=", "DQ_RECEIPT="] {
        assert!(env.lines().any(|seen| seen.starts_with(line)), "{line}: {env}");
    }
    assert!(!env.contains("DELAY_BROKER_WORK_PASSWORD"), "{env}");
    assert_eq!(worker.stop(), 0);
}

/// A command that reads nothing of 16 MiB, and one whose child holds its pipes open.
#[test]
fn commands_need_not_read() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let large = vec![b'x'; 16 << 20];
    let script = "sleep 60 & echo $! >> \"$DIR/left\"; exit 0";
    let mut worker = Worker::runs(&stage, &["--concurrency", "2"], script);
    for payload in [&large[..], b"small", &large] {
        client.call(&[b"DQ.OFFER", &b"q"[..], b"0", payload]).unwrap();
    }
    acked(&mut client, 3);
    assert_eq!(worker.stop(), 0);
    for pid in worker.read("left").lines() {
        crate::support::process::signal(pid.parse().unwrap(), "KILL");
    }
}

#[test]
fn a_lease_is_kept_while_the_command_runs() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let script = "while [ ! -e \"$DIR/go\" ]; do sleep 0.05; done";
    let mut worker = Worker::runs(&stage, &["--lease", "1s", "--http", "127.0.0.1:0"], script);
    offer(&mut client, &["q", "0", "x"]);
    eventually("it was taken", || (info(&mut client, "q", "leased").int() == 1).then_some(()));
    let until = |client: &mut crate::support::resp::Client| {
        let reply = call(client, &["DQ.TAKEN", "q"]);
        let row = reply.elements()[1].elements()[0].clone();
        crate::stage::field_of(&row, "until").unwrap().int()
    };
    let first = until(&mut client);
    eventually("it was extended often", || (until(&mut client) > first + 2_000).then_some(()));
    std::fs::write(worker.path("go"), "").unwrap();
    acked(&mut client, 1);
    assert_eq!(info(&mut client, "q", "taken").int(), 1, "handed out once");
    let mut redis = stage.redis;
    assert_eq!(held(&mut redis), [0; 5]);
    assert_eq!(worker.stop(), 0);
}

/// Somebody else settles the message while the command runs: that is said, and no more.
#[test]
fn a_message_that_somebody_else_has() {
    let stage = Stage::new(&[]);
    let mut client = stage.broker.client();
    let script = "echo $DQ_RECEIPT > \"$DIR/new\"; mv \"$DIR/new\" \"$DIR/receipt\"; \
                  while [ ! -e \"$DIR/go\" ]; do sleep 0.05; done";
    let mut worker = Worker::runs(&stage, &["--lease", "1s"], script);
    offer(&mut client, &["q", "0", "x"]);
    let receipt =
        eventually("a receipt", || Some(worker.read("receipt")).filter(|r| !r.is_empty()));
    assert_eq!(call(&mut client, &["DQ.ACK", "q", receipt.trim()]).int(), 1);
    worker.has_logged("the broker answers 0");
    std::fs::write(worker.path("go"), "").unwrap();
    offer(&mut client, &["q", "0", "y"]);
    acked(&mut client, 2);
    assert_eq!(worker.stop(), 0);
    assert!(worker.log().contains("2 done"), "{}", worker.log());
}
