//! Ranks in large collections, which are counted in stretches: what they tell is what a plain list
//! tells, whatever is written between.

use everleaf_server::Then;
use proptest::prelude::*;

use crate::keyspace::{Client, Pool};

/// Members with which a collection begins: some stretches.
const MANY: usize = 3000;

fn strings(reply: &str) -> Vec<String> {
    reply
        .split("\r\n")
        .filter(|l| !l.is_empty() && !l.starts_with(['$', '*']))
        .map(Into::into)
        .collect()
}

/// A command that writes or reads, by numbers which are taken modulo what there is.
type Step = (u8, usize, usize);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>()), 1..60)
}

fn fill(client: &mut Client, command: &str, of: impl Fn(usize) -> String) {
    let all: Vec<usize> = (0..MANY).collect();
    for some in all.chunks(100) {
        let words: Vec<String> = some.iter().map(|at| of(*at)).collect();
        client.ask(&format!("{command} {}", words.join(" ")));
    }
}

/// Members by score and name.
#[derive(Default)]
struct Sorted(Vec<(i64, String)>);

impl Sorted {
    fn set(&mut self, member: &str, score: i64) {
        self.remove(member);
        let entry = (score, member.to_owned());
        let at = self.0.partition_point(|other| *other < entry);
        self.0.insert(at, entry);
    }

    fn remove(&mut self, member: &str) {
        self.0.retain(|(_, other)| other != member);
    }

    fn names(&self, range: std::ops::Range<usize>) -> Vec<String> {
        self.0[range].iter().map(|(_, name)| name.clone()).collect()
    }
}

fn sorted_step(client: &mut Client, model: &mut Sorted, (what, a, b): Step) {
    let members = model.0.len();
    let (score, other) = ((a % 5000) as i64, (b % 5000) as i64);
    let at = a % members;
    let member = model.0[at].1.clone();
    match what % 10 {
        0 | 1 => {
            let new = format!("m{}", b % (2 * MANY));
            client.ask(&format!("ZADD z {score} {new}"));
            model.set(&new, score);
        }
        2 => {
            client.ask(&format!("ZREM z {member}"));
            model.remove(&member);
        }
        3 => assert_eq!(client.number(&format!("ZRANK z {member}")), at),
        4 => assert_eq!(client.number(&format!("ZREVRANK z {member}")), members - 1 - at),
        5 => {
            let count = model.0.iter().filter(|(s, _)| (score..=other).contains(s)).count();
            assert_eq!(client.number(&format!("ZCOUNT z {score} {other}")), count);
        }
        6 => {
            let end = (at + 5).min(members);
            let shown = client.ask(&format!("ZRANGE z {at} {}", at + 4));
            assert_eq!(strings(&shown), model.names(at..end));
            let shown = client.ask(&format!("ZREVRANGE z {at} {}", at + 4));
            let mut expected = model.names(members - end..members - at);
            expected.reverse();
            assert_eq!(strings(&shown), expected);
        }
        7 => {
            let skip = b % MANY;
            let from = model.0.partition_point(|(s, _)| *s < score);
            let to = (from + skip + 3).min(members);
            let shown = client.ask(&format!("ZRANGEBYSCORE z {score} +inf LIMIT {skip} 3"));
            assert_eq!(strings(&shown), model.names((from + skip).min(to)..to));
            let to = model.0.partition_point(|(s, _)| *s <= score);
            let last = to.saturating_sub(skip);
            let mut expected = model.names(last.saturating_sub(3)..last);
            expected.reverse();
            let shown = client.ask(&format!("ZREVRANGEBYSCORE z {score} -inf LIMIT {skip} 3"));
            assert_eq!(strings(&shown), expected);
        }
        8 => {
            let end = (at + b % 700).min(members - 1);
            if end - at < members - 1 {
                client.ask(&format!("ZREMRANGEBYRANK z {at} {end}"));
                model.0.drain(at..=end);
            }
        }
        _ => {
            // In a transaction what is not written yet counts.
            client.ask("MULTI");
            client.ask(&format!("ZADD z {score} {member}"));
            client.ask(&format!("ZRANK z {member}"));
            let replies = client.ask("EXEC");
            model.set(&member, score);
            let rank = model.0.iter().position(|(_, name)| *name == member).unwrap();
            assert!(replies.ends_with(&format!(":{rank}\r\n")), "{replies} is not {rank}");
        }
    }
}

fn list_step(client: &mut Client, model: &mut Vec<String>, (what, a, b): Step) {
    let elements = model.len();
    let at = a % elements;
    let (element, new) = (model[at].clone(), format!("n{b}"));
    let first = model.iter().position(|other| *other == element).unwrap();
    match what % 11 {
        0 => {
            client.ask(&format!("LINSERT l BEFORE {element} {new}"));
            model.insert(first, new);
        }
        1 => {
            client.ask(&format!("LINSERT l AFTER {element} {new}"));
            model.insert(first + 1, new);
        }
        2 => {
            assert_eq!(client.number(&format!("LREM l 1 {element}")), 1);
            model.remove(first);
        }
        3 => {
            let count = model.iter().filter(|other| **other == element).count();
            assert_eq!(client.number(&format!("LREM l 0 {element}")), count);
            model.retain(|other| *other != element);
        }
        4 => {
            client.ask(&format!("RPUSH l {new}"));
            model.push(new);
        }
        5 => {
            client.ask(&format!("LPUSH l {new}"));
            model.insert(0, new);
        }
        6 => assert_eq!(strings(&client.ask("RPOP l")), [model.pop().unwrap()]),
        7 => assert_eq!(strings(&client.ask("LPOP l")), [model.remove(0)]),
        8 => {
            client.ask(&format!("LSET l {at} {new}"));
            model[at] = new;
        }
        9 => {
            let to = elements - b % 100;
            client.ask(&format!("LTRIM l {} {}", a % 100, to as i64 - 1));
            *model = model[a % 100..to].to_vec();
        }
        _ => {
            let end = (at + 5).min(elements);
            assert_eq!(strings(&client.ask(&format!("LINDEX l {at}"))), [&element[..]]);
            let shown = client.ask(&format!("LRANGE l {at} {}", at + 4));
            assert_eq!(strings(&shown), model[at..end]);
            assert_eq!(client.number(&format!("LPOS l {element}")), first);
        }
    }
    assert_eq!(client.number("LLEN l"), model.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_sorted_set_has_the_ranks_of_a_sorted_list(steps in steps()) {
        let pool = Pool::new();
        let mut client = pool.client();
        let mut model = Sorted::default();
        fill(&mut client, "ZADD z", |at| format!("{} m{at}", at * 7919 % 5000));
        (0..MANY).for_each(|at| model.0.push(((at * 7919 % 5000) as i64, format!("m{at}"))));
        model.0.sort();
        steps.into_iter().for_each(|step| sorted_step(&mut client, &mut model, step));
        assert_eq!(strings(&client.ask("ZRANGE z 0 -1")), model.names(0..model.0.len()));
    }

    #[test]
    fn a_list_is_a_list_whatever_is_put_between(steps in steps(), again in steps()) {
        let mut pool = Pool::new();
        let mut client = pool.client();
        let mut model: Vec<String> = (0..MANY).map(|at| format!("e{}", at % 2000)).collect();
        fill(&mut client, "RPUSH l", |at| model[at].clone());
        steps.into_iter().for_each(|step| list_step(&mut client, &mut model, step));
        drop(client);
        pool = pool.again(false);
        client = pool.client();
        again.into_iter().for_each(|step| list_step(&mut client, &mut model, step));
        assert_eq!(strings(&client.ask("LRANGE l 0 -1")), model);
    }
}

#[test]
fn draws_from_a_large_set_are_of_all_of_it() {
    let pool = Pool::new();
    let mut client = pool.client();
    fill(&mut client, "SADD s", |at| format!("{at:04}"));
    let mut tenths = [0; 10];
    for _ in 0..1000 {
        let drawn = strings(&client.ask("SRANDMEMBER s"));
        tenths[10 * drawn[0].parse::<usize>().unwrap() / MANY] += 1;
    }
    assert!(tenths.iter().all(|drawn| *drawn > 50), "{tenths:?}");
    let mut popped = std::collections::BTreeSet::new();
    for left in (0..MANY).rev() {
        popped.extend(strings(&client.ask("SPOP s")));
        assert_eq!(popped.len(), MANY - left);
    }
    assert_eq!(client.ask("EXISTS s"), ":0\r\n");
}

#[test]
fn what_takes_long_is_left_until_it_may_be_answered() {
    let pool = Pool::new();
    let mut client = pool.client();
    for round in 0..10 {
        fill(&mut client, "SADD s", |at| format!("{round}{at:04}"));
    }
    let request =
        b"*2\r\n$5\r\nSCARD\r\n$1\r\ns\r\n*3\r\n$10\r\nSINTERCARD\r\n$1\r\n1\r\n$1\r\ns\r\n";
    let (mut session, mut out) = (client.0, Vec::new());
    let served = session.serve(request, &mut out);
    assert_eq!((served.consumed, served.then), (22, Then::Long));
    assert_eq!(out, b":30000\r\n");
    let served = session.serve_long(&request[22..], &mut out);
    assert_eq!((served.consumed, served.then), (request.len() - 22, Then::Read));
    assert_eq!(out, b":30000\r\n:30000\r\n");
}
