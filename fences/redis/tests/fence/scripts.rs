//! Guarded scripts: they run as they do without the guard, or not at all.

use redis::Value;
use tenure_fence_redis::FencedScript;

use super::*;

const NOTHING: Option<&str> = None;

impl Bench {
    async fn run_script<T: FromRedisValue>(&mut self, text: &str, token: u64) -> Result<T> {
        let script = FencedScript::new(text)?;
        self.fence
            .run(&mut self.conn, &script, &["a", "b"], &["1", "two", ""], numbered(token))
            .await
    }
}

#[test]
fn keys_and_arguments_pass_through() {
    Bench::run(async |mut bench| {
        let echo = "return {#KEYS, #ARGV, KEYS, ARGV}";
        let (keys, args) = (vec!["a", "b"], vec!["1", "two", ""]);
        let back: (u64, u64, Vec<String>, Vec<String>) = bench.run_script(echo, 1).await.unwrap();
        assert_eq!((back.0, back.1), (2, 3));
        assert_eq!(
            (back.2, back.3),
            (
                keys.iter().map(|s| (*s).to_owned()).collect(),
                args.iter().map(|s| (*s).to_owned()).collect()
            )
        );

        let script = FencedScript::new(echo).unwrap();
        let Bench { fence, conn, .. } = &mut bench;
        let none: (u64, u64) = fence
            .run(
                conn,
                &FencedScript::new("return {#KEYS, #ARGV}").unwrap(),
                NOTHING,
                NOTHING,
                numbered(1),
            )
            .await
            .unwrap();
        assert_eq!(none, (0, 0));
        let many: Vec<Vec<u8>> = (0..10_000_u16).map(|n| n.to_be_bytes().to_vec()).collect();
        let back: (u64, u64, Vec<Vec<u8>>, Vec<Vec<u8>>) =
            fence.run(conn, &script, &many, &many, numbered(1)).await.unwrap();
        assert_eq!((back.2, back.3), (many.clone(), many));
    });
}

#[test]
fn a_script_runs_as_it_does_without_the_guard() {
    let scripts = [
        "",
        "return",
        "return nil",
        "return false",
        "return true",
        "return 3.9",
        "return 'text'",
        "return {1, 'two', {3}, false, 5, nil, 7}",
        "return redis.status_reply('FINE')",
        "return redis.call('SET', KEYS[1], ARGV[1])",
        "return redis.call('GET', 'nobody')",
        "return 1, 2",
        "if ARGV[1] == '1' then return 'early' end return 'late'",
        "local function first() return KEYS[1] .. ARGV[2] end\nlocal tenure = first()\nreturn tenure",
        "return 1 -- the last line is a comment",
        "return 1;",
        "--[[ long\ncomment ]] return [[\nlong\ntext]]",
        "return tostring(tenure)",
        "return #KEYS .. _G.KEYS[#KEYS] .. _G.ARGV[#ARGV - 1]",
        "return 'ключ\\0'",
    ];
    Bench::run(async |mut bench| {
        for text in scripts {
            let mut plain = redis::cmd("EVAL");
            plain.arg(text).arg(2).arg(&["a", "b", "1", "two", ""]);
            let plain: Value = if text.contains("tenure)") {
                Value::BulkString(b"nil".to_vec())
            } else {
                plain.query_async(&mut bench.conn).await.unwrap()
            };
            let guarded: Value = bench.run_script(text, 1).await.unwrap();
            assert_eq!(guarded, plain, "{text}");
        }
    });
}

#[test]
fn answers_of_the_newer_protocol_pass_through() {
    Bench::run(async |bench| {
        let url = format!("{}/?protocol=resp3", bench.server.url());
        let conn = bench.server.connect_by(&url).await;
        let mut bench = Bench { conn, ..bench };
        bench.fence.claim(&mut bench.conn, numbered(2)).await.unwrap();
        assert_stale(bench.fence.claim(&mut bench.conn, numbered(1)).await, 1, 2);
        for text in [
            "redis.setresp(3) redis.call('HSET', 'h', 'f', 'v') return redis.call('HGETALL', 'h')",
            "redis.setresp(3) return {double = 1.5}",
            "redis.setresp(3) return true",
            "return false",
            "return",
        ] {
            let mut plain = redis::cmd("EVAL");
            let plain: Value = plain.arg(text).arg(0).query_async(&mut bench.conn).await.unwrap();
            assert_eq!(bench.run_script::<Value>(text, 2).await.unwrap(), plain, "{text}");
        }
    });
}

#[test]
fn a_script_that_fails_midway_leaves_no_door_open() {
    Bench::run(async |mut bench| {
        bench.fence.claim(&mut bench.conn, numbered(1)).await.unwrap();
        let answer =
            bench.run_script::<()>("redis.call('SET', KEYS[1], 'half')\nerror('no more')", 2).await;
        assert_failed(answer, ErrorKind::Rejected, "user_script:2: no more");
        assert_eq!(bench.ask::<String>(&["GET", "a"]).await, "half");
        assert_eq!(bench.newest().await, Some(2));
        assert_stale(bench.fence.set(&mut bench.conn, "a", "old", numbered(1)).await, 1, 2);

        bench.ask::<()>(&["RPUSH", "b", "x"]).await;
        let answer = bench.run_script::<()>("\n\nreturn redis.call('INCR', KEYS[2])", 3).await;
        assert_failed(answer, ErrorKind::Rejected, "user_script:3");
        assert_eq!(bench.newest().await, Some(3));
    });
}

#[test]
fn an_error_that_a_script_answers_is_an_error() {
    Bench::run(async |mut bench| {
        let text = "redis.call('SET', KEYS[1], 'x') return redis.error_reply('MINE not enough')";
        assert_failed(
            bench.run_script::<()>(text, 1).await,
            ErrorKind::Rejected,
            "MINE not enough",
        );
        // An error of the script that looks like the server's own does not make it run again.
        let text = "redis.call('INCR', KEYS[2]) return redis.error_reply('NOSCRIPT mine')";
        assert_failed(bench.run_script::<()>(text, 1).await, ErrorKind::Rejected, "NOSCRIPT mine");
        assert_eq!(bench.ask::<u64>(&["GET", "b"]).await, 1);
    });
}

#[test]
fn a_script_that_does_not_compile_changes_nothing() {
    Bench::run(async |mut bench| {
        for (text, part) in [
            ("redis.call('SET', 'a', 1)\nreturn )", "user_script:2: unexpected symbol near ')'"),
            ("redis.call('SET', 'a', 1) end", "user_script:2: "),
            ("if true then redis.call('SET', 'a', 1)", "user_script:2: "),
            ("redis.call('SET', 'a', 1) --[[ and so on", "unfinished long comment"),
            ("return 'open", "unfinished string"),
            ("return ...", "outside a vararg function"),
        ] {
            let answer = bench.run_script::<()>(text, 1).await;
            assert_failed(answer, ErrorKind::Invalid, "the guarded script does not compile: ");
            let answer = bench.run_script::<()>(text, 1).await;
            assert_failed(answer, ErrorKind::Invalid, part);
        }
        assert_eq!(bench.ask::<u64>(&["DBSIZE"]).await, 0);
    });
}

/// A superfluous `end` closes the guard's function, but the check has run before.
#[test]
fn no_text_runs_before_the_check() {
    Bench::run(async |mut bench| {
        bench.fence.claim(&mut bench.conn, numbered(2)).await.unwrap();
        let text = "end) redis.call('SET', 'a', 1) do return end (function()";
        let _ = bench.run_script::<Value>(text, 1).await; // Its error does not matter here.
        assert_eq!(bench.ask::<Option<String>>(&["GET", "a"]).await, None);
    });
}

#[test]
fn a_shebang_line_is_refused() {
    for text in ["#!lua", "#!lua name=x\nreturn 1", "#!lua flags=allow-oom\nreturn 1"] {
        assert_failed(FencedScript::new(text), ErrorKind::Invalid, "`#!` line");
    }
}

#[test]
fn a_server_that_lost_its_scripts_gets_them_again() {
    Bench::run(async |mut bench| {
        for token in 1..=3 {
            bench.fence.claim(&mut bench.conn, numbered(token)).await.unwrap();
            bench.ask::<()>(&["SCRIPT", "FLUSH"]).await;
            bench.fence.set(&mut bench.conn, "k", token, numbered(token)).await.unwrap();
            bench.ask::<()>(&["SCRIPT", "FLUSH"]).await;
            assert!(bench.fence.delete(&mut bench.conn, "k", numbered(token)).await.unwrap());
            bench.ask::<()>(&["SCRIPT", "FLUSH"]).await;
            assert_eq!(bench.run_script::<u64>("return 5", token).await.unwrap(), 5);
        }
        // A server that knows the script is called by the hash.
        bench.ask::<()>(&["CONFIG", "RESETSTAT"]).await;
        assert_eq!(bench.run_script::<u64>("return 5", 3).await.unwrap(), 5);
        let stats: String = bench.ask(&["INFO", "commandstats"]).await;
        assert!(stats.contains("cmdstat_evalsha:calls=1,"), "{stats}");
        assert!(!stats.contains("cmdstat_eval:"), "{stats}");
    });
}

#[test]
fn an_answer_of_another_type_says_that_the_write_is_done() {
    Bench::run(async |mut bench| {
        let text = "redis.call('SET', KEYS[1], 'x') return 'text'";
        assert_failed(bench.run_script::<u64>(text, 1).await, ErrorKind::Invalid, "is done");
        assert_eq!(bench.ask::<String>(&["GET", "a"]).await, "x");
    });
}
