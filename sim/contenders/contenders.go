package main

// contender is a lock library, and what its row says. It is played twice: as documented, and with care.
type contender struct {
	Name     string
	dir      string // of its adapter in Go; "": command
	command  string
	module   string   // of Python that it needs
	missing  bool     // the module is not installed
	node     string   // of the election of the specification; "": an adapter
	option   string   // of --lease-cmd with care
	env      bool     // with care, the adapter gets CAREFUL=1
	stores   []string // started by --store; none: the Redis of the storm
	Promises string
	Fence    string
	Careful  string // what care means; "": it is not played with care
	Helps    string // the setting that helps most
}

const (
	python = "/usr/bin/python3" // Debian's, which has the modules python3-redis and python3-psycopg2
	redis  = "sh contenders/redis.sh"
)

// The contenders, ours last.
var contenders = []contender{
	{
		Name: "SET NX", dir: "setnx", env: true,
		Promises: "a key is set once; all else is the user's",
		Fence:    "no", Careful: "a random token that scripts compare, a deadline counted from before the request, short time-outs",
		Helps: "the deadline",
	},
	{
		Name: "redislock 0.9.4", dir: "redislock", option: "--check", env: true,
		Promises: "one token in the key; refresh and release compare it; TTL asks Redis; the user renews",
		Fence:    "no", Careful: "`TTL` before each poll, short time-outs of the client",
		Helps: "go-redis' `ReadTimeout`, `DialTimeout` and `MaxRetries`; `TTL` before each use",
	},
	{
		Name: "redsync 4.18.1", dir: "redsync", env: true,
		Promises: "one owner until `Until`; the user extends",
		Fence:    "no", Careful: "`Until` is the deadline, `Extend` is repeated until then, short time-outs of the client",
		Helps: "asking `Until` before each use",
	},
	{
		Name: "redsync on 5 servers", dir: "redsync", env: true,
		stores:   []string{"R1=" + redis, "R2=" + redis, "R3=" + redis, "R4=" + redis, "R5=" + redis},
		Promises: "the same, while a majority of the servers keeps its data",
		Fence:    "no", Careful: "as redsync", Helps: "asking `Until` before each use",
	},
	{
		Name: "rueidislock 1.0.79", dir: "rueidislock", env: true,
		Promises: "renews by itself; its context ends at once when the lock is lost, or Redis is down",
		Fence:    "no", Careful: "`ExtendInterval` is a tenth of the TTL, short time-outs of the client",
		Helps: "`ExtendInterval`: the context can end that much late",
	},
	{
		Name: "redis-py 4.3.4", command: python + " contenders/redispy.py", module: "redis", option: "--check", env: true,
		Promises: "the lock expires; release and reacquire compare the token; the user renews",
		Fence:    "no", Careful: "`owned()` before each poll, `socket_timeout` and `socket_connect_timeout` far below the TTL",
		Helps: "`socket_timeout`",
	},
	{
		Name: "PostgreSQL advisory lock", command: python + " examples/leases/pg_advisory.py", module: "psycopg2", option: "--check",
		stores:   []string{"POSTGRES=sh examples/leases/postgres.sh"},
		Promises: "one session has the lock until it unlocks or the session ends",
		Fence:    "no", Careful: "a query on the session before each poll", Helps: "a query on the session before each use",
	},
	{
		Name: "the specification's election", node: "sovereign",
		Promises: "one leader; heartbeats tell whether it is healthy",
		Fence:    "no", Helps: "none: it has no deadline, and does not compare the owner",
	},
	{
		Name: "leasestorm", dir: "keeper", env: true,
		Promises: "one owner at any time, also after a loss of data; the context ends before the lease can have another owner",
		Fence:    "yes", Careful: "`Deadline` bounds each poll", Helps: "`Valid` before each use, and a target that compares fences",
	},
}

// question is a scenario in questions/.
type question struct {
	Name, Asks string
	redis      bool // strikes the Redis of the storm, and what it means for other stores is another question
	virtual    bool // only in virtual time
	most       int  // seeds at most; 0: all
	times      int  // on the real engine as many times more seeds, because chance decides how long after a renewal a fault strikes
}

// calm is the name of the question without a fault.
const calm = "calm"

var questions = []question{
	{Name: "silence", Asks: "silence of 6.7 TTL"},
	{Name: "silence-long", Asks: "silence of 40 TTL", virtual: true, most: 5},
	{Name: "replies-lost", Asks: "replies lost for 4 TTL"},
	{Name: "freeze", Asks: "freeze of 2 TTL"},
	{Name: "crash", Asks: "crash"},
	{Name: "stop", Asks: "stop"},
	{Name: "late-release", Asks: "a release that comes late"},
	{Name: "empty-restart", Asks: "Redis restarts empty", redis: true, times: 4},
	{Name: "flush", Asks: "FLUSHALL", redis: true, times: 4},
	{Name: "failover", Asks: "failover to a replica 2 s behind", redis: true, virtual: true},
	{Name: "old-master", Asks: "an old master lives on for 6.7 TTL", redis: true, virtual: true},
	{Name: "full", Asks: "full Redis", redis: true, most: 5},
	{Name: "clock-step", Asks: "clock steps", virtual: true, most: 5},
	{Name: calm, Asks: "no fault", most: 1},
}
