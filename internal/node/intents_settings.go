package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/proxies"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/api"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

const intentsUsage = `Accept intents (role api), run the sessions that they ask for (role worker), or both.

  node --system intents --redis redis://127.0.0.1:6379 --api 127.0.0.1:8080 --tokens tokens.txt --target http://127.0.0.1:9090
  node intents dead-letters list|requeue ID|drop ID --redis redis://127.0.0.1:6379
  node intents bootstrap|quarantine 60s|replicas 2 --redis redis://127.0.0.1:6379

An API accepts POST /api/v3/intents and lists sessions under /api/v3/sessions (docs/intents.md). For each session, a worker owns
the leases of a service and of a tuner slot. It sends POST <target>/tune/<slot>, which lasts as long as the session runs, with the
headers X-Instance, X-Session, X-Service, X-Fence (of the slot) and X-Service-Fence. The target should refuse a fence lower than
the highest it has seen, with 409. Without a target, a session does nothing until it is stopped: a dry run.

An API answers only loopback and private networks. It believes X-Forwarded-For from --trusted-proxies, and refuses requests with
that header from others. LEASESTORM_TOKENS may hold the tokens instead of a file, separated by ";". With
LEASESTORM_API_LEASES=true (phase 1 of the migration), the API acquires the service lease itself and answers 409 while the service
is in use. GET /healthz: the API runs; /readyz: it reaches Redis; /metrics: its counters. A worker alone serves them with --health.
If a worker is killed, and a new one starts on the same host, the new one frees the old leases at once; docs/intents.md has the
conditions in containers.

Standard output: the node's messages, one JSON object a line (docs/node-protocol.md).
Standard error:  the log, JSON.
SIGTERM, SIGINT: stop cleanly: sessions end, leases are released, exit 0. A second one: exit 1 at once.

Exit codes: 0 stopped cleanly; 1 not everything could be released; 3 a setting or the Redis is wrong, nothing was done.

Every setting is an environment variable; a flag overrides it. Durations in variables are milliseconds, in flags "1.5s".
`

const (
	roleAPI    = "api"
	roleWorker = "worker"
	roleBoth   = "both"
)

// tunersMax prevents a mistyped number from making a pool that no worker can search.
const tunersMax = 10_000

type intentSettings struct {
	settings
	role         string
	apiAddr      string
	slots        []string
	tokens       []api.Token
	tokenFile    *tokenFile // nil: the tokens are in the environment
	proxies      []netip.Prefix
	conns        int
	quotas       api.Quotas
	apiLeases    bool
	singleWriter bool
	warnings     []string
}

func (s *intentSettings) storeOptions() store.Options {
	return store.Options{Names: intent.ADR003(), Leases: s.lease(), Batches: 4}
}

// unlimited turns 0 into -1, because 0 selects the library's default.
func unlimited(limits ...*int) {
	for _, n := range limits {
		if *n == 0 {
			*n = -1
		}
	}
}

const connsDefault = 1024

// parseIntents reads the environment and then the flags. serving selects the additional settings of a running node.
func parseIntents(args []string, getenv func(string) string, out io.Writer, serving bool) (intentSettings, error) {
	s := intentSettings{}
	v := newVariables("node --system intents", getenv)
	var system, tuners, tokensFile, trusted, replicas, level, renewals, pause string
	v.text(&system, "system", "LEASESTORM_SYSTEM", systemIntents, "intents")
	s.Register(v.FlagSet, getenv)
	v.text(&s.role, "role", "LEASESTORM_ROLE", roleBoth, "api, worker or both")
	v.text(&s.apiAddr, "api", "LEASESTORM_API_ADDR", "127.0.0.1:8080", "address of the API, as host:port")
	v.text(&s.healthAddr, "health", healthVariable, "", "where anybody can read /healthz, /readyz and /metrics, as "+
		"host:port; if empty, on the API's address, if there is one")
	v.text(&tokensFile, "tokens", "LEASESTORM_TOKENS_FILE", "",
		"file of the API's tokens, one a line: name sha256:<hex> scope,scope [expires]; read again when it changes")
	v.text(&trusted, "trusted-proxies", "LEASESTORM_TRUSTED_PROXIES", "",
		"networks whose X-Forwarded-For the API believes, as 10.0.0.1/32,…; none if empty")
	v.number(&s.conns, "conns", "LEASESTORM_CONNS", connsDefault, "connections of the API at once; 0: no limit")
	v.number(&s.quotas.StartRate, "start-rate", "LEASESTORM_START_RATE", 100, "starts per second of each token; 0: no limit")
	v.number(&s.quotas.Backlog, "backlog", "LEASESTORM_BACKLOG", 20_000,
		"starts that each token may send at once, and as many more per hour; 0: no limit")
	v.text(&s.targetURL, "target", "LEASESTORM_TARGET_URL", "", "the server of the slots, as http://host:port; none: a dry run")
	v.Lookup("target").DefValue = "" // it may have a password, and --help prints it
	v.text(&tuners, "tuners", "LEASESTORM_TUNERS", "4", "slots: how many (\"4\" makes 1,2,3,4), or their names (\"a,b\")")
	v.text(&s.name, "name", "LEASESTORM_NODE", "",
		"name of this worker, the same after a restart, so that it frees the leases of its last process; if empty: host and role")
	v.duration(&s.leases.TTL, "ttl", "LEASESTORM_TTL_MS", lease.DefaultTTL, "how long a lease lives without a renewal")
	v.duration(&s.leases.RenewInterval, "renew", "LEASESTORM_RENEW_MS", 0, "time between renewals; 0: TTL/3")
	v.text(&replicas, "replicas", "LEASESTORM_REPLICAS", "", "how many replicas Redis is meant to have (docs/replicas.md); 0 if empty")
	v.duration(&s.leases.OpTimeout, "op-timeout", "LEASESTORM_OP_TIMEOUT_MS", 0, "timeout of a request to Redis; 0: TTL/10")
	v.BoolVar(&s.singleWriter, "single-writer", false,
		"delete all leases at the start, when no other worker is alive; wait at most a TTL for that")
	v.text(&level, "log", "LEASESTORM_LOG", "", "debug, info, warn or error; info if empty")
	v.text(&renewals, "renew-log", "LEASESTORM_RENEW_LOG", "", "log level of successful renewals; info if empty")
	v.text(&pause, "pause", "LEASESTORM_PAUSE", "",
		"check-send: at the first pipeline, stop the process after the check of the lease and before the request")
	var help bool
	v.BoolVarP(&help, "help", "h", false, "this text")
	if err := v.read(args, &help, intentsUsage, out, "see node --system intents --help"); err != nil {
		return s, err
	}
	if err := cmp.Or(s.settings.validate(level, renewals, "", pause), s.setReplicas(replicas)); err != nil {
		return s, err
	}
	if !serving {
		return s, nil
	}
	var err error
	if s.proxies, err = proxies.Parse(trusted); err != nil {
		return s, fmt.Errorf("LEASESTORM_TRUSTED_PROXIES (--trusted-proxies): %w", err)
	}
	if s.apiLeases, s.warnings, err = phaseFromEnv(getenv); err != nil {
		return s, err
	}
	return s, s.complete(tuners, getenv("LEASESTORM_TOKENS"), tokensFile, time.Now())
}

func (s *intentSettings) complete(tuners, tokens, file string, now time.Time) (err error) {
	switch {
	case s.leases.TTL < lease.TTLMin || s.leases.TTL > lease.TTLMax:
		return fmt.Errorf("LEASESTORM_TTL_MS (--ttl) is %v; it must be %v to %v", s.leases.TTL, lease.TTLMin, lease.TTLMax)
	case min(s.conns, s.quotas.StartRate, s.quotas.Backlog) < 0:
		return errors.New("--conns, --start-rate and --backlog must not be negative; 0 is no limit")
	case s.role == roleAPI && s.singleWriter:
		return errors.New("--single-writer needs a worker, but LEASESTORM_ROLE (--role) is api: leave it out")
	}
	if !slices.Contains([]string{roleAPI, roleWorker, roleBoth}, s.role) {
		return fmt.Errorf("LEASESTORM_ROLE (--role) is %q; it must be api, worker or both", s.role)
	}
	s.warnings = append(s.warnings, s.unguarded()...)
	unlimited(&s.quotas.StartRate, &s.quotas.Backlog)
	if s.slots, err = parseSlots(tuners); err != nil {
		return err
	}
	if s.name == "" && s.role != roleAPI {
		if host, err := os.Hostname(); err == nil && host != "" {
			s.name = host + "-" + s.role
		}
	}
	if s.role == roleWorker {
		return nil
	}
	return s.readTokens(tokens, file, now)
}

// readTokens reads the tokens of the API from the file, or else from the text.
func (s *intentSettings) readTokens(tokens, file string, now time.Time) (err error) {
	if file != "" {
		s.tokenFile = &tokenFile{name: file}
		if s.tokens, err = s.tokenFile.read(); err != nil {
			return fmt.Errorf("LEASESTORM_TOKENS_FILE (--tokens): %w", err)
		}
	} else if s.tokens, err = api.ParseTokens(strings.NewReader(strings.ReplaceAll(tokens, ";", "\n")), intent.ADR003()); err != nil {
		return err
	}
	if len(s.tokens) == 0 {
		return errors.New("no token given, so nobody could use the API; set LEASESTORM_TOKENS_FILE or --tokens")
	}
	for _, t := range s.tokens {
		if !t.Expires.IsZero() && !now.Before(t.Expires) {
			s.warnings = append(s.warnings, fmt.Sprintf("the token %q expired at %s", t.Name, t.Expires.Format(time.RFC3339)))
		}
	}
	return nil
}

// unguarded returns warnings about traffic that others on the network can read.
func (s *intentSettings) unguarded() (warnings []string) {
	host, _, err := net.SplitHostPort(s.apiAddr)
	addr, bad := netip.ParseAddr(host)
	local := host == "localhost" || bad == nil && addr.Unmap().IsLoopback()
	if err == nil && s.role != roleWorker && !local {
		warnings = append(warnings, fmt.Sprintf("the API listens at %s without TLS: anybody on the network can read tokens; put a proxy "+
			"with TLS before it (--trusted-proxies)", s.apiAddr))
	}
	return warnings
}

func notInSlot(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/?#%", r) }

func parseSlots(text string) (slots []string, err error) {
	if n, err := strconv.Atoi(text); err == nil {
		if n < 1 || n > tunersMax {
			return nil, fmt.Errorf("LEASESTORM_TUNERS (--tuners) is %d; it must be 1 to %d", n, tunersMax)
		}
		for i := range n {
			slots = append(slots, strconv.Itoa(i+1))
		}
		return slots, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "" || strings.ContainsFunc(name, notInSlot) || slices.Contains(slots, name) {
			return nil, fmt.Errorf("LEASESTORM_TUNERS (--tuners) has the slot %q; each name must occur once, in printable ASCII without "+
				"spaces and / ? # %%",
				name)
		}
		slots = append(slots, name)
	}
	return slots, nil
}
