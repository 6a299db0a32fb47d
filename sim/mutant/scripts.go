package mutant

import (
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/internal/logentry"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

func replaceOnce(text string, e Edit) string {
	if strings.Count(text, e.Old) != 1 {
		return text
	}
	return strings.Replace(text, e.Old, e.New, 1)
}

// grantFence is the line of acquire.lua that chooses a fence.
const grantFence = "local fence = math.max(known, seen, now - 1) + 1"

var constantFence = []Edit{{"acquire", grantFence, "local fence = 1"}}

// scripts are mutants of the scripts that keep leases safe. Most skip a condition.
var scripts = []Mutant{
	{
		Name: "renews-without-owner-check", Breaks: "G10", Seeds: 50,
		Story: "A renewal extends the key whoever holds it, and tells the caller that it holds it (Sovereign: EXPIRE).",
		Lua:   []Edit{{"renew", "if holder == owner then", "if holder then"}},
	},
	{
		Name: "renewal-of-nothing", Breaks: "G10", Seeds: 200, Scenario: struck(fault.KeyDelete),
		Story: "A renewal that finds no key says that it renewed (EXPIRE whose 0 nobody reads).",
		Lua:   []Edit{{"renew", "codes[i - 1] = 'l'", "codes[i - 1] = 'r'"}},
	},
	{
		Name: "release-by-key", Breaks: "G1", Seeds: 150, Scenario: struck(fault.Terminate, fault.Latency, fault.BlackHole),
		Story: "A release deletes the key whoever holds it (a plain DEL).",
		Lua:   []Edit{{"release", "holder == owner and last == ARGV[5 + 2 * i]", "holder"}},
	},
	{
		Name: "acquire-takes-over", Breaks: "G10", Seeds: 150,
		Story: "An acquisition adopts the key whoever holds it (Sovereign: forced takeover).",
		Lua:   []Edit{{"acquire", "holder ~= owner or ARGV[8 + i / 2] == '1'", "false"}},
	},
	{
		Name: "no-quarantine", Breaks: "G1", Seeds: 50,
		Story: "A Redis that has lost its data grants leases at once (every library compared).",
		Lua:   []Edit{{"epoch", "now + wait)", "now + 0)"}},
	},
	{
		Name: "quarantine-a-twentieth-short", Breaks: "G10", Seeds: 20,
		Story: "A Redis that has lost its data grants leases after 95 % of a TTL.",
		Lua:   []Edit{{"epoch", "now + wait)", "now + wait * 0.95)"}},
	},
	{
		Name: "adoption-keeps-its-fence", Breaks: "G3", Seeds: 100,
		Story: "An instance that finds its own key goes on under the fence that the key had.",
		Lua:   []Edit{{"acquire", grantFence, grantFence + "\n    if holder and last then fence = tonumber(last) end"}},
	},
	{
		Name: "fence-constant", Breaks: "G3", Seeds: 20,
		Story: "Every term has the same fence (most libraries have none at all).",
		Lua:   constantFence,
	},
	{
		Name: "fence-not-carried", Breaks: "G3", Seeds: 300, Scenario: struck(fault.RedisFailover, fault.RedisWipe, fault.Crash),
		Story: "An acquisition does not carry the highest fence its instance has seen, and Redis does not look at its clock.",
		Lua:   []Edit{{"acquire", grantFence, "local fence = known + 1"}},
	},
	{
		Name: "scripts-without-epoch", Breaks: "G10", Seeds: 50,
		Story: "A script that was sent before Redis lost its data is executed after it.",
		Lua:   []Edit{{"epoch", "local void = epoch ~= ARGV[1]", "local void = false"}},
	},
	{
		Name: "beat-without-epoch", Breaks: "G10", Seeds: 100, Scenario: struck(fault.RedisFlush),
		Story: "A heartbeat is set whether or not its sender has heard that Redis lost its data.",
		Lua:   []Edit{{"beat", "if void then", "if false then"}},
	},
	{
		Name: "a-new-run-goes-unnoticed", Breaks: "G10", Seeds: 100, Scenario: struck(fault.RedisRestart, fault.RedisFailover, fault.Crash),
		Story: "A Redis that was restarted, or that a replica took over, is believed to be the one before.",
		Lua:   []Edit{{"epoch", "if known_run ~= run then", "if not epoch then"}},
	},
	{
		Name: "assertions-are-refused", Breaks: "G9", Seeds: 20,
		Story: "A quarantine counts as over for who asserts a term.",
		Lua:   []Edit{{"reassert", "left == 0", "true"}},
	},
}

var others = []Mutant{{
	Name: "losses-are-not-logged", Breaks: "G12", Seeds: 20,
	Story: "A term that is lost leaves no entry in the log.",
	Run: func(v *virtual.Config) {
		log := v.Log
		v.Log = func(e *virtual.LogEntry) {
			if !slices.ContainsFunc(e.Fields, func(f logentry.Field) bool { return f.Key == "event" && f.Text == "lost" }) {
				log(e)
			}
		}
	},
}}
