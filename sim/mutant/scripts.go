package mutant

import (
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

const (
	luaDir      = "internal/redisstore/lua/"
	acquireFile = luaDir + "acquire.lua"
	epochLua    = luaDir + "epoch.lua"
	renewFile   = luaDir + "renew.lua"
	releaseFile = luaDir + "release.lua"
)

// The words of acquire.lua that grant a fence.
const grantFence = "local fence = math.max(known, seen, now - 1) + 1"

// scripts are mutants of the Lua scripts. They run in an interpreter, on the model of Redis.
var scripts = []Mutant{
	{
		Name: "renews-without-owner-check", By: DropComparison,
		Story:  "A renewal extends the key whoever holds it, and tells the caller that it holds it (Sovereign: EXPIRE).",
		Breaks: "G10", Seeds: 50,
		Edits: []Edit{{renewFile, "if holder == owner then", "if holder then"}},
	},
	{
		Name: "expire-without-check", By: DropComparison,
		Story:  "A renewal is an EXPIRE whose answer nobody reads.",
		Breaks: "G10", Seeds: 50,
		Edits: []Edit{
			{renewFile, "if holder == owner then", "if type(holder) ~= 'table' then"},
		},
	},
	{
		Name: "renewal-for-longer", By: ChangeWait,
		Story:  "A renewal gives the lease a tenth more than a TTL.",
		Breaks: "G10", Seeds: 20,
		Edits: []Edit{{renewFile, "call('PEXPIRE', lease, ttl)", "call('PEXPIRE', lease, math.floor(ttl * 1.1))"}},
	},
	{
		Name: "refused-acquisition-extends", By: DoTwice,
		Story:  "An acquisition that finds the lease held extends it for its holder.",
		Breaks: "G10", Seeds: 50,
		Edits: []Edit{{acquireFile, "    codes[#codes + 1] = 'H'\n", "    codes[#codes + 1] = 'H'\n    call('PEXPIRE', lease, ttl)\n"}},
	},
	{
		Name: "renewal-creates-the-key", By: Replace,
		Story:  "A renewal sets the key anew if it is gone (redsync#149).",
		Breaks: "G10", Seeds: 200,
		Edits: []Edit{{renewFile, "elseif not holder then\n    codes[i - 1] = 'l'",
			"elseif not holder then\n    call('SET', lease, owner, 'PX', ttl)\n    codes[i - 1] = 'r'"}},
	},
	{
		Name: "renewal-of-nothing", By: SwapCauses,
		Story:  "A renewal that finds no key says that it renewed (EXPIRE whose 0 nobody reads).",
		Breaks: "G10", Seeds: 200,
		Edits: []Edit{{renewFile, "elseif not holder then\n    codes[i - 1] = 'l'", "elseif not holder then\n    codes[i - 1] = 'r'"}},
	},
	{
		Name: "release-by-key", By: DropComparison,
		Story:  "A release deletes the key whoever holds it (a plain DEL).",
		Breaks: "G1", Seeds: 150,
		Scenario: sim.Scenario{Faults: []fault.Kind{fault.Terminate, fault.Latency, fault.BlackHole}},
		Edits:    []Edit{{releaseFile, "elseif holder == owner and last == ARGV[5 + 2 * i] then", "elseif holder then"}},
	},
	{
		Name: "release-without-fence", By: DropComparison,
		Story:  "A release deletes any term of its owner's, also a later one (redsync, redislock, Redisson: the token is the process's).",
		Breaks: "G1", Package: "internal/core", Test: "TestStormLateReleaseEndsNoLaterTerm",
		Edits: []Edit{{releaseFile, "elseif holder == owner and last == ARGV[5 + 2 * i] then", "elseif holder == owner then"}},
	},
	{
		Name: "acquire-takes-over", By: DropComparison,
		Story:  "An acquisition sets the key without asking whether another holds it (Sovereign: forced takeover).",
		Breaks: "G10", Seeds: 20,
		Edits: []Edit{
			{acquireFile, "elseif holder and (holder ~= owner or ", "elseif holder and holder == owner and ("},
			{acquireFile, "call('SET', lease, owner, 'NX', 'PX', ttl)", "call('SET', lease, owner, 'PX', ttl)"},
			{acquireFile, "    if holder then\n      call('PEXPIRE'", "    if holder == owner then\n      call('PEXPIRE'"},
		},
	},
	{
		Name: "adoption-keeps-its-fence", By: Replace,
		Story:  "An instance that finds its own key goes on under the fence that the key had.",
		Breaks: "G3", Seeds: 100,
		Edits: []Edit{{acquireFile, grantFence, grantFence + "\n    if holder and last then fence = tonumber(last) end"}},
	},
	{
		Name: "fence-constant", By: Replace,
		Story:  "Every term has the same fence (most libraries have none at all).",
		Breaks: "G3", Seeds: 20,
		Edits: []Edit{{acquireFile, grantFence, "local fence = 1"}},
	},
	{
		Name: "fence-restarts", By: Forget,
		Story:  "A lease's fence lives as long as its key, so that it begins anew after every expiry.",
		Breaks: "G3", Seeds: 50,
		Edits: []Edit{
			{acquireFile, grantFence, "local fence = fence_of(last) + 1"},
			{acquireFile, "'PX', fence_life)", "'PX', ttl)"},
		},
	},
	{
		Name: "fence-by-incr", By: Replace,
		Story:  "The fence is a counter in Redis (Redisson's bare INCR): it falls with the data.",
		Breaks: "G3", Seeds: 100,
		Edits: []Edit{{acquireFile, grantFence, "local fence = call('INCR', fence_key)"}},
	},
	{
		Name: "no-quarantine", By: ShortenMargin,
		Story:  "A Redis that has lost its data grants leases at once (every library compared).",
		Breaks: "G1", Seeds: 50,
		Edits: []Edit{{epochLua, "now + agreed)", "now)"}},
	},
	{
		Name: "half-a-quarantine", By: ShortenMargin,
		Story:  "A Redis that has lost its data grants leases after half a TTL.",
		Breaks: "G10", Seeds: 20,
		Edits: []Edit{{epochLua, "now + agreed)", "now + agreed / 2)"}},
	},
	{
		Name: "quarantine-a-twentieth-short", By: ShortenMargin,
		Story:  "A Redis that has lost its data grants leases after 95 % of a TTL.",
		Breaks: "G10", Seeds: 20,
		Edits: []Edit{{epochLua, "now + agreed)", "now + agreed * 0.95)"}},
	},
	{
		Name: "quarantine-a-fifth-long", By: ChangeWait,
		Story:  "A Redis that has lost its data grants leases after a TTL and a fifth.",
		Breaks: "G9", Seeds: 50,
		Edits: []Edit{{epochLua, "now + agreed)", "now + agreed * 1.2)"}},
	},
	{
		Name: "adopts-in-quarantine", By: DropComparison,
		Story:  "An instance that finds its own key in a quarantine adopts it.",
		Breaks: "G10", Package: "internal/redisstore", Test: "TestConformance",
		Edits: []Edit{{acquireFile, "elseif left > 0", "elseif left > 0 and not holder"}},
	},
	{
		Name: "scripts-without-epoch", By: DropComparison,
		Story:  "A script that was sent before Redis lost its data is executed after it.",
		Breaks: "G10", Seeds: 50,
		Edits: []Edit{{epochLua, "local void = epoch ~= ARGV[1]", "local void = false"}},
	},
	{
		Name: "beat-without-epoch", By: DropComparison,
		Story:  "A heartbeat is set whether or not its sender has heard that Redis lost its data.",
		Breaks: "G10", Seeds: 100,
		Scenario: sim.Scenario{Faults: []fault.Kind{fault.RedisFlush}},
		Edits:    []Edit{{luaDir + "beat.lua", "if void then return answer() end\n", ""}},
	},
	{
		Name: "reasserts-over-a-higher-fence", By: DropComparison,
		Story:  "A term is asserted anew although a later one was granted.",
		Breaks: "G1", Package: "internal/redisstore", Test: "TestConformance",
		Edits: []Edit{{luaDir + "reassert.lua", "elseif fence_of(last) <= tonumber(fence) then", "elseif true then"}},
	},
	{
		Name: "releases-the-first-only", By: SkipOne,
		Story:  "Of several leases that are released together the first is deleted, and the others are left to expire.",
		Breaks: "G6", Seeds: 20,
		Edits: []Edit{{releaseFile, "    call('DEL', lease)\n", "    if i == 1 then call('DEL', lease) end\n"}},
	},
}
