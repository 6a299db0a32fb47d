// A lease adapter (docs/lease-protocol.md) that needs only Rust's standard library (rustc lock.rs): SET NX with a random token.
use std::{collections::HashMap, env, io::*, net::TcpStream, time::*};

fn redis(words: &[&str]) -> Result<String> { // sends one command on a new connection, and returns its one line of reply
    let url = env::var("LEASESTORM_REDIS_URL").unwrap(); // redis://host:port/db, without a password
    let mut conn = TcpStream::connect(url.trim_start_matches("redis://").split('/').next().unwrap())?;
    conn.set_read_timeout(Some(Duration::from_millis(500)))?;
    let command: String = words.iter().map(|w| format!("${}\r\n{}\r\n", w.len(), w)).collect();
    conn.write_all(format!("*{}\r\n{}", words.len(), command).as_bytes())?;
    let mut reply = String::new();
    BufReader::new(conn).read_line(&mut reply)?;
    Ok(reply.trim().to_string())
}

fn main() {
    let mut tokens: HashMap<String, String> = HashMap::new();
    for line in stdin().lines().map(|l| l.unwrap()) {
        let field = |name: &str| line.split(&format!("\"{name}\":")).nth(1).unwrap().split([',', '}']).next().unwrap().trim_matches('"');
        let (id, key, ttl, now) = (field("id"), field("key"), field("ttl_ms"), SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
        if field("op") == "acquire" { tokens.insert(key.into(), format!("{now:?}-{}", std::process::id())); }
        let script = match field("op") {
            "acquire" => "return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) and 1 or 0".to_string(),
            op => format!("if redis.call('get', KEYS[1]) == ARGV[1] then return {} end return 0",
                match op { "renew" => "redis.call('pexpire', KEYS[1], ARGV[2])", "release" => "redis.call('del', KEYS[1])", _ => "1" }) };
        let reply = redis(&["EVAL", &script, "1", key, &tokens[key], ttl]).unwrap_or("no reply".into());
        let until = now.as_millis() + ttl.parse::<u128>().unwrap() * 99 / 100;
        println!("{{\"id\":{id},\"ok\":{},\"retry\":{},\"until_unix_ms\":{until}}}", reply == ":1", reply != ":0");
    }
}
