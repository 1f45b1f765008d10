//! An operator does things to nodes.

use tenure_conformance::fault::stories::unreadable::a_stranger_hides_nobody_ahead_of_it;
use tenure_core::{ErrorKind, Loss, TicketId, WatchEvent};
use zookeeper_client::{Acls, Client, CreateMode};

use super::stage::{
    LINES, TTL, at_last, connect, operator, play, soon, tickets, until, until_line,
};

#[test]
fn a_holder_whose_node_is_deleted_is_told_at_once() {
    play(1, async |ensemble| {
        let (locks, other) = (connect(&ensemble).await, connect(&ensemble).await);
        let operator = operator(&ensemble).await;
        let guard = locks.mutex("k").lock().await.unwrap();
        let waiting = tokio::spawn(async move { other.mutex("k").lock().await });
        until_line(&locks, "k", 2).await;
        operator.delete(&tickets(&operator).await[0], None).await.unwrap();
        assert_eq!(soon("the holder is told", guard.lost()).await, Loss::Broken);
        let next = soon("the next is served", waiting).await.unwrap().unwrap();
        assert!(next.token() > guard.token());
    });
}

#[test]
fn a_waiter_whose_node_is_deleted_does_not_hold() {
    play(1, async |ensemble| {
        let (locks, other) = (connect(&ensemble).await, connect(&ensemble).await);
        let operator = operator(&ensemble).await;
        let guard = locks.mutex("k").lock().await.unwrap();
        let waiting = tokio::spawn(async move { other.mutex("k").lock().await });
        until_line(&locks, "k", 2).await;
        operator.delete(&tickets(&operator).await[1], None).await.unwrap();
        let told = soon("the waiter is told", waiting).await.unwrap();
        assert_eq!(told.map(drop).unwrap_err().loss(), Some(Loss::Broken));
        guard.check().unwrap();
    });
}

#[test]
fn a_node_of_our_name_and_another_owner_is_not_believed() {
    play(1, async |ensemble| {
        let locks = connect(&ensemble).await;
        let operator = operator(&ensemble).await;
        let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        let path = tickets(&operator).await.remove(0);
        let (body, _) = operator.get_data(&path).await.unwrap();
        let mut both = operator.new_multi_writer();
        both.add_delete(&path, None).unwrap();
        let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        both.add_create(&path, &body, &ephemeral).unwrap();
        both.commit().await.unwrap();
        let loss = soon("the holder is told", guard.lost()).await;
        assert!(matches!(loss, Loss::Broken | Loss::SessionGone), "{loss}");
    });
}

#[test]
fn numbers_grow_though_the_count_of_a_line_begins_anew() {
    play(1, async |ensemble| {
        let locks = connect(&ensemble).await;
        let operator = operator(&ensemble).await;
        let (mut tokens, mut tails) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let guard = locks.mutex("k").lock().await.unwrap();
            tokens.push(guard.token());
            let path = tickets(&operator).await.remove(0);
            tails.push(path.rsplit('-').next().unwrap().to_owned());
            guard.release().await.unwrap();
            let line = path.rsplit_once('/').unwrap().0;
            operator.delete(line, None).await.unwrap();
        }
        assert_eq!(tails, ["0000000000"; 3], "the tail began anew each time");
        assert!(tokens.is_sorted_by(|before, after| before < after), "{tokens:?}");
    });
}

#[test]
fn a_line_that_is_deleted_under_its_holder_and_its_waiter_is_made_anew() {
    play(1, async |ensemble| {
        let (locks, other) = (connect(&ensemble).await, connect(&ensemble).await);
        let operator = operator(&ensemble).await;
        let guard = locks.mutex("k").lock().await.unwrap();
        let waiting = tokio::spawn(async move { other.mutex("k").lock().await });
        until_line(&locks, "k", 2).await;
        let mut all = operator.new_multi_writer();
        let paths = tickets(&operator).await;
        for path in paths.iter().rev() {
            all.add_delete(path, None).unwrap();
        }
        all.add_delete(paths[0].rsplit_once('/').unwrap().0, None).unwrap();
        all.commit().await.unwrap();
        assert_eq!(soon("the holder is told", guard.lost()).await, Loss::Broken);
        let told = soon("the waiter is told", waiting).await.unwrap();
        assert_eq!(told.map(drop).unwrap_err().loss(), Some(Loss::Broken));
        let next = locks.mutex("k").lock().await.unwrap();
        assert!(next.token() > guard.token());
        // And with everything that was ever made.
        next.release().await.unwrap();
        operator.delete(paths[0].rsplit_once('/').unwrap().0, None).await.unwrap();
        operator.delete(LINES, None).await.unwrap();
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_session_that_the_server_ended_is_told_and_the_next_lock_opens_another() {
    play(1, async |ensemble| {
        let locks = connect(&ensemble).await;
        let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        // A server alone that is away for longer than all sessions live has ended them when it is
        // back.
        let server = &ensemble.servers()[0];
        server.freeze().unwrap();
        tokio::time::sleep(TTL * 2).await;
        server.thaw().unwrap();
        soon("the holder is told", guard.lost()).await;
        let next = at_last("it locks again", async || locks.mutex("k").ttl(TTL).lock().await).await;
        assert!(next.token() > guard.token());
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
        next.check().expect("the end of the old one touches nobody");
    });
}

#[test]
fn a_clean_end_leaves_nothing_behind() {
    play(1, async |ensemble| {
        let locks = connect(&ensemble).await;
        let operator = operator(&ensemble).await;
        let (guard, other) = (
            locks.mutex("a").lock().await.unwrap(),
            locks.mutex("b").ttl(TTL).lock().await.unwrap(),
        );
        guard.release().await.unwrap();
        drop(other);
        locks.close().await;
        assert_eq!(tickets(&operator).await, Vec::<String>::new());
        drop(locks);
        soon("the sessions are closed", async {
            let connected = || ensemble.servers()[0].ask("cons").unwrap();
            while connected().lines().filter(|line| line.contains("sid=")).count() > 1 {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await;
    });
}

#[test]
fn a_short_ttl_has_a_session_of_its_own() {
    play(1, async |ensemble| {
        let locks = connect(&ensemble).await;
        let operator = operator(&ensemble).await;
        let long = locks.mutex("long").ttl(TTL * 4).lock().await.unwrap();
        let short = locks.mutex("short").ttl(TTL).lock().await.unwrap();
        let mut owners = Vec::new();
        for path in tickets(&operator).await {
            owners.push(operator.check_stat(&path).await.unwrap().unwrap().ephemeral_owner);
        }
        assert!(owners.len() == 2 && owners[0] != owners[1], "{owners:?}");
        let lives = async |key: &str| locks.line(key).await.unwrap()[0].life.expect("it ends");
        assert!(lives("short").await <= TTL && lives("long").await > TTL * 2);
        long.check().unwrap();
        short.check().unwrap();
    });
}

/// Makes a ticket as another version of Tenure might: its node has another body and the same form
/// of name.
async fn stranger_behind(operator: &Client, ticket: &str) -> String {
    let (before, _) = ticket.rsplit_once('-').unwrap();
    let (capacity, _) = before.rsplit_once('-').unwrap();
    let name = format!("{capacity}-{}-", TicketId::fresh());
    let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let made = operator.create(&name, b"tenure2 of another form", &ephemeral).await;
    let (_, tail) = made.unwrap();
    format!("{name}{tail}")
}

#[test]
fn a_ticket_that_cannot_be_read_keeps_others_out_as_any_other_does() {
    play(1, async |ensemble| {
        let locks = connect(&ensemble).await;
        let operator = operator(&ensemble).await;
        let guard = locks.mutex("k").lock().await.unwrap();
        let path = tickets(&operator).await.remove(0);
        guard.release().await.unwrap();
        let stranger = stranger_behind(&operator, &path).await;
        let tried = locks.mutex("k").try_lock().await.unwrap();
        assert!(tried.is_none(), "it is held");
        let refused = locks.mutex("k").lock().await.map(drop).expect_err("it is held");
        let looked = locks.line("k").await.expect_err("somebody stands there");
        for refused in [refused, looked] {
            assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
            let (line, _) = path.rsplit_once('/').unwrap();
            for part in ["cannot be read", "\"k\"", line, "when no client holds the lock"] {
                assert!(refused.to_string().contains(part), "{part}: {refused}");
            }
        }
        assert_eq!(tickets(&operator).await.len(), 1, "nothing is left of who was refused");
        operator.delete(&stranger, None).await.unwrap();
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_ticket_that_cannot_be_read_hides_nobody_ahead_of_it() {
    play(1, async |ensemble| {
        let (locks, other) = (connect(&ensemble).await, connect(&ensemble).await);
        let operator = operator(&ensemble).await;
        let mut all = other.watch_prefix("").await.unwrap();
        let comes = async || {
            stranger_behind(&operator, &tickets(&operator).await[0]).await;
        };
        a_stranger_hides_nobody_ahead_of_it(&locks, &other, TTL * 4, comes).await;
        until("only the stranger is left", async || tickets(&operator).await.len() == 1).await;
        let unrelated = locks.mutex("unrelated").lock().await.unwrap();
        soon("what others do is seen", async {
            while !matches!(all.next().await.unwrap(), WatchEvent::Event(event) if event.ticket.key.as_str() == "unrelated") {}
        })
        .await;
        unrelated.release().await.unwrap();
    });
}

#[test]
fn a_number_that_is_overwritten_with_something_else_is_not_begun_anew() {
    play(1, async |ensemble| {
        let locks = connect(&ensemble).await;
        let operator = operator(&ensemble).await;
        let sequence = locks.sequence("k");
        for number in 1..=3 {
            assert_eq!(sequence.next().await.unwrap(), number);
        }
        let name = operator.list_children("/tenure/v1/c").await.unwrap().remove(0);
        let path = format!("/tenure/v1/c/{name}");
        operator.set_data(&path, b"three", None).await.unwrap();
        let refused = sequence.next().await.expect_err("it was given before");
        assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
        for part in
            ["a stored number cannot be read", "\"k\"", &path, "write a number that is larger"]
        {
            assert!(refused.to_string().contains(part), "{part}: {refused}");
        }
        operator.set_data(&path, b"3", None).await.unwrap();
        assert_eq!(sequence.next().await.unwrap(), 4);
    });
}
