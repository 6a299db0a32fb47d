// A lease adapter (docs/lease-protocol.md) that needs only Java (java lock.java): SET NX with a random token, which renew and release compare.
import java.io.*;
import java.net.*;
import java.util.*;

class Lock {
	static String redis(String... words) { // sends one command on a new connection, and returns its one line of reply
		var url = URI.create(System.getenv("LEASESTORM_REDIS_URL")); // without a password
		try (var conn = new Socket()) {
			conn.setSoTimeout(500);
			conn.connect(new InetSocketAddress(url.getHost(), url.getPort()), 500);
			var command = new StringBuilder("*" + words.length + "\r\n");
			for (var word : words) command.append("$" + word.getBytes().length + "\r\n" + word + "\r\n");
			conn.getOutputStream().write(command.toString().getBytes());
			return new BufferedReader(new InputStreamReader(conn.getInputStream())).readLine();
		} catch (IOException e) { return e.getMessage(); }
	}
	static String field(String line, String name) { return line.replaceFirst(".*\"" + name + "\":\"?([^\",}]*).*", "$1"); }

	public static void main(String[] args) {
		var tokens = new HashMap<String, String>();
		for (var line : (Iterable<String>) new BufferedReader(new InputStreamReader(System.in)).lines()::iterator) {
			String op = field(line, "op"), key = field(line, "key"), ttl = field(line, "ttl_ms");
			if (op.equals("acquire")) tokens.put(key, UUID.randomUUID().toString());
			var change = Map.of("renew", "redis.call('pexpire', KEYS[1], ARGV[2])", "release", "redis.call('del', KEYS[1])", "check", "1").get(op);
			var script = change == null ? "return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) and 1 or 0"
				: "if redis.call('get', KEYS[1]) == ARGV[1] then return " + change + " end return 0";
			var until = System.currentTimeMillis() + Long.parseLong(ttl) * 99 / 100;
			var reply = redis("EVAL", script, "1", key, tokens.get(key), ttl);
			System.out.printf("{\"id\":%s,\"ok\":%b,\"retry\":%b,\"until_unix_ms\":%d}%n", field(line, "id"), ":1".equals(reply), !":0".equals(reply), until);
		}
	}
}
