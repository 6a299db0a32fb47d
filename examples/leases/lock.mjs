// A lease adapter (docs/lease-protocol.md) that needs only Node.js: SET NX with a random token, which renew and release compare.
import net from 'node:net'
import readline from 'node:readline'

const url = new URL(process.env.LEASESTORM_REDIS_URL)
const ifOwned = (f) => `if redis.call('get', KEYS[1]) == ARGV[1] then return ${f} end return 0`
const scripts = {
  acquire: `return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) and 1 or 0`,
  renew: ifOwned(`redis.call('pexpire', KEYS[1], ARGV[2])`), check: ifOwned('1'), release: ifOwned(`redis.call('del', KEYS[1])`)
}
const encode = (words) => `*${words.length}\r\n` + words.map((w) => `$${Buffer.byteLength(w)}\r\n${w}\r\n`).join('')
const redis = (...words) => new Promise((resolve, reject) => { // sends one command on a new connection
  const login = url.password ? encode(['AUTH', url.username || 'default', url.password]) : ''
  const conn = net.connect(url.port, url.hostname, () => conn.write(login + encode(words)))
  conn.setTimeout(500, () => conn.destroy(new Error('timeout'))).on('error', reject).on('close', () => reject(new Error('closed')))
  let text = ''
  conn.on('data', (some) => (text += some).match(/^(\+OK\r\n)?[:-].*\r\n/) && conn.destroy(resolve(text.split('\r\n').at(-2))))
})

const tokens = {}
for await (const line of readline.createInterface({ input: process.stdin })) {
  const q = JSON.parse(line), sent = Date.now()
  if (q.op === 'acquire') tokens[q.key] = `${process.env.LEASESTORM_INSTANCE}:${q.id}`
  const reply = await redis('EVAL', scripts[q.op], '1', q.key, tokens[q.key], String(q.ttl_ms)).catch((err) => err.message)
  const result = reply === ':1' ? { until_unix_ms: Math.floor(sent + q.ttl_ms * 0.99) } : reply === ':0' ? {} : { error: reply, retry: true }
  console.log(JSON.stringify({ id: q.id, ok: reply === ':1', ...result }))
}
