package mutant

import (
	"fmt"
	"path"
	"strings"

	"github.com/leasestorm/leasestorm/sim"
)

const conditionsText = "One comparison of one script is not looked at: in virtual time, or by a test on a Redis server."

// seen are comparisons whose lack storms show.
var seen = []struct {
	Drop
	breaks   string
	seeds    uint64
	scenario sim.Scenario
}{
	{drop(luaDir+"acquire.lua", `holder ~= owner`, 1, false), "G1", 150, sim.Scenario{}},
	{drop(luaDir+"acquire.lua", `left > 0`, 1, true), "G6", 20, sim.Scenario{}},
	{drop(luaDir+"beat.lua", `void`, 1, false), "G10", 150, sim.Scenario{}},
	{drop(luaDir+"epoch.lua", `known_run ~= run`, 1, true), "G8", 20, sim.Scenario{}},
	{drop(luaDir+"nodes.lua", `pttl == -2`, 1, true), "G6", 20, sim.Scenario{}},
	{drop(luaDir+"observe.lua", `type(holder) == 'table'`, 1, true), "G5", 20, sim.Scenario{}},
	{drop(luaDir+"pass.lua", `redis.pcall('GET', lease) == ARGV[1]`, 1, true), "I1", 20, stormOfIntents},
	{drop(luaDir+"reassert.lua", `left == 0`, 1, true), "G9", 20, sim.Scenario{}},
	{drop(luaDir+"renew.lua", `void`, 1, false), "G10", 20, sim.Scenario{}},
	{drop(luaDir+"renew.lua", `holder == owner`, 1, true), "G10", 20, sim.Scenario{}},
	{drop(intentLua+"common.lua", `redis.pcall('GET', prefix .. 'idem:' .. key) == id`, 1, true), "I2", 800, stormOfIntents},
	{drop(intentLua+"sweep.lua", `known ~= run`, 1, true), "I7", 20, stormOfIntents},
	{drop(intentLua+"sweep.lua", `math.max(beat, tonumber(since)) + tonumber(ARGV[6]) > ms`, 1, true), "I3", 150, stormOfIntents},
	{drop(intentLua+"sweep.lua", `worker == me`, 1, true), "I3", 150, stormOfIntents},
	{drop(intentLua+"sweep.lua", `r[1] ~= 'RUNNING'`, 1, false), "I5", 150, stormOfIntents},
	{drop(intentLua+"sweep.lua", `redis.pcall('GET', ARGV[9] .. (r[4] or '')) == worker`, 1, true), "I3", 150, stormOfIntents},
	{drop(intentLua+"sweep.lua", `#sessions == limit`, 1, true), "I7", 20, stormOfIntents},
	{drop(intentLua+"sweep.lua", `c[1] == me`, 1, false), "I3", 500, stormOfIntents},
	{drop(intentLua+"sweep.lua", `not alive(c[1])`, 1, false), "I3", 150, stormOfIntents},
	{drop(intentLua+"sweep.lua", `published(id, r[2])`, 1, false), "I2", 20, stormOfIntents},
	{drop(intentLua+"sweep.lua", `#unseen == limit`, 1, true), "I5", 20, stormOfIntents},
	{drop(intentLua+"write.lua", `now[1] == 'ENDED'`, 1, true), "I2", 20, stormOfIntents},
	{drop(intentLua+"write.lua", `known > tonumber(ARGV[7])`, 1, false), "I3", 150, stormOfIntents},
	{drop(intentLua+"write.lua", `state == 'ENDED'`, 1, true), "I3", 150, stormOfIntents},
}

// tested are those whose lack tests show.
var tested = []struct {
	Drop
	breaks, test string
}{
	{drop(luaDir+"acquire.lua", `void`, 1, false), "G10", "TestConformance"},
	{drop(luaDir+"acquire.lua", `type(holder) == 'table'`, 1, false), "G10", "TestConformance"},
	{drop(luaDir+"acquire.lua", `type(last) == 'table'`, 1, false), "G10", "TestConformance"},
	{drop(luaDir+"acquire.lua", `ARGV[8 + i / 2] == '1'`, 1, false), "G10", "TestConformance"},
	{drop(luaDir+"acquire.lua", `known > seen`, 1, false), "G9", "TestConformance"},
	{drop(luaDir+"beat.lua", `present == 0`, 1, true), "G10", "TestConformance"},
	{drop(luaDir+"bootstrap.lua", `known_run == run`, 1, true), "G10", "TestConformance"},
	{drop(luaDir+"bootstrap.lua", `tonumber(quarantine_end) <= now`, 1, true), "G10", "TestConformance"},
	{drop(luaDir+"bootstrap.lua", `epoch ~= ARGV[1]`, 1, false), "G1", "TestBootstrapMeanwhile"},
	{drop(luaDir+"bootstrap.lua", `redis.call('HGET', KEYS[2], 'epoch') == epoch`, 1, true), "G9", "TestBootstrapWithoutRecord"},
	{drop(luaDir+"epoch.lua", `next == epoch`, 1, true), "G10", "TestConformance"},
	{drop(luaDir+"epoch.lua", `epoch ~= ARGV[1]`, 1, true), "G1", "TestGroupAgreesOnQuarantine"},
	{drop(luaDir+"epoch.lua", `noted[1] == epoch`, 1, true), "G1", "TestRecordOfGroup"},
	{drop(luaDir+"epoch.lua", `n < 9007199254740992`, 1, true), "G3", "TestForeignFence"},
	{drop(luaDir+"life.lua", `acks == 0`, 1, true), "G8", "TestEpochWithoutReplicas"},
	{drop(luaDir+"life.lua", `type(text) == 'string'`, 1, true), "G8", "TestDeniedCommands"},
	{drop(luaDir+"leave.lua", `void`, 1, false), "G10", "TestConformance"},
	{drop(luaDir+"pass.lua", `ARGV[2] == '-'`, 1, true), "G10", "TestPass"},
	{drop(luaDir+"probe.lua", `type(reply) == 'table'`, 1, true), "G8", "TestPermitted"},
	{drop(luaDir+"probe.lua", `key ~= ARGV[3]`, 1, true), "G8", "TestPermittedKeyByKey"},
	{drop(luaDir+"probe.lua", `ARGV[2] == '1'`, 1, true), "G8", "TestPermitted"},
	{drop(luaDir+"probe.lua", `ARGV[4] == '1'`, 1, true), "G8", "TestPermitted"},
	{drop(luaDir+"probe.lua", `key == ARGV[5]`, 1, true), "G8", "TestPermitted"},
	{drop(luaDir+"quarantine.lua", `not void`, 1, true), "G1", "TestSetQuarantineMeanwhile"},
	{drop(luaDir+"replicas.lua", `not void`, 1, true), "G1", "TestSetReplicas"},
	{drop(luaDir+"reassert.lua", `void`, 1, false), "G10", "TestConformance"},
	{drop(luaDir+"reassert.lua", `type(holder) == 'table'`, 1, false), "G10", "TestConformance"},
	{drop(luaDir+"reassert.lua", `type(last) == 'table'`, 1, false), "G10", "TestConformance"},
	{drop(luaDir+"reassert.lua", `fence_of(last) <= tonumber(fence)`, 1, true), "G10", "TestConformance"},
	{drop(luaDir+"release.lua", `void`, 1, false), "G10", "TestConformance"},
	{drop(luaDir+"release.lua", `type(holder) == 'table'`, 1, false), "G10", "TestConformance"},
	{drop(luaDir+"release.lua", `type(last) == 'table'`, 1, false), "G10", "TestConformance"},
	{drop(luaDir+"release.lua", `holder == owner`, 1, true), "G10", "TestConformance"},
	{drop(luaDir+"release.lua", `last == ARGV[5 + 2 * i]`, 1, true), "G10", "TestConformance"},
	{drop(luaDir+"release.lua", `last == ARGV[5 + 2 * i]`, 2, true), "G10", "TestConformance"},
	{drop(luaDir+"renew.lua", `type(holder) == 'table'`, 1, true), "G10", "TestConformance"},
	{drop(luaDir+"supersede.lua", `not void`, 1, true), "G1", "TestSupersede"},
	{drop(luaDir+"sweep.lua", `redis.call('PTTL', key) == -1`, 1, true), "E1", "TestSweepHeartbeats"},
	{drop(luaDir+"sweep.lua", `type(text) == 'string'`, 1, true), "E1", "TestSweepHeartbeats"},
	{drop(luaDir+"sweep.lua", `string.match(text, '^%d%d%d%d%d%d%d%d%d%d%d%d%d$')`, 1, true), "E1", "TestSweepHeartbeats"},
	{drop(luaDir+"sweep.lua", `now - tonumber(text) > age`, 1, true), "E1", "TestSweepHeartbeats"},
	{drop(intentLua+"beat.lua", `not soft('ZCARD', ended)`, 1, true), "I5", "TestForeignSets"},
	{drop(intentLua+"beat.lua", `not soft('XRANGE', dead, '0-0', '0-0')`, 1, true), "I5", "TestForeignSets"},
	{drop(intentLua+"beat.lua", `fields(id, 'stop')[1]`, 1, true), "I5", "TestForeignSets"},
	{drop(intentLua+"bury.lua", `ARGV[9] ~= ''`, 1, true), "I2", "TestBuryLeavesEntriesNumberedAlike"},
	{drop(intentLua+"bury.lua", `known <= tonumber(ARGV[8])`, 1, true), "I5", "TestBuryLeavesOthers"},
	{drop(intentLua+"busy.lua", `known ~= ARGV[5]`, 1, true), "I4", "TestPutWithLease"},
	{drop(intentLua+"busy.lua", `holder ~= 'session:' .. ARGV[5]`, 1, true), "I4", "TestPutWithLease"},
	{drop(intentLua+"busy.lua", `state ~= 'ENDED'`, 1, true), "I2", "TestKeyOfWhatHasEnded"},
	{drop(intentLua+"common.lua", `#value <= 16384`, 1, true), "I3", "TestLongEntriesAreNotTold"},
	{drop(intentLua+"common.lua", `#id <= 512`, 1, true), "I5", "TestLongEntriesAreNotTold"},
	{drop(intentLua+"common.lua", `said[i] == 'session'`, 1, true), "I3", "TestEntriesNumberedAlikeAreNotSettled"},
	{drop(intentLua+"common.lua", `short(named) ~= short(session)`, 1, false), "I3", "TestEntriesNumberedAlikeAreNotSettled"},
	{drop(intentLua+"common.lua", `at(entry, session)`, 1, true), "I3", "TestEntriesNumberedAlikeAreNotSettled"},
	{drop(intentLua+"common.lua", `type(r) ~= 'table'`, 1, false), "I5", "TestSweepLeavesWhatHasItsLease"},
	{drop(intentLua+"common.lua", `not string.find(r.err, 'WRONGTYPE', 1, true)`, 1, true), "I3", "TestForeignRecord"},
	{drop(intentLua+"delete.lua", `worker ~= ARGV[5]`, 1, true), "I5", "TestLeasesOfWhoHasBeatenAreNotDeleted"},
	{drop(intentLua+"delete.lua", `tonumber(redis.call('ZSCORE', workers, worker)) ~= beats[worker]`, 1, false), "I1",
		"TestLeasesOfWhoHasBeatenAreNotDeleted"},
	{drop(intentLua+"disown.lua", `r[1] == 'RUNNING'`, 1, true), "I5", "TestDisown"},
	{drop(intentLua+"disown.lua", `r[3] == ARGV[5]`, 1, true), "I5", "TestDisown"},
	{drop(intentLua+"lease.lua", `left > 0`, 1, false), "I1", "TestPutWithLeaseInQuarantine"},
	{drop(intentLua+"put.lua", `present == id`, 1, false), "I2", "TestPutSentTwice"},
	{drop(intentLua+"put.lua", `state ~= 'ENDED'`, 1, true), "I2", "TestKeyOfWhatHasEnded"},
	{drop(intentLua+"read.lua", `n == 0`, 1, false), "I5", "TestEndedSessionsAreForgotten"},
	{drop(intentLua+"read.lua", `n > most`, 1, false), "I5", "TestRecordTooLongToRead"},
	{drop(intentLua+"requeue.lua", `r[1] ~= 'ENDED'`, 1, false), "I2", "TestRequeueOnlyWhatHasEnded"},
	{drop(intentLua+"requeue.lua", `last >= 9007199254740992`, 1, true), "I5", "TestRequeuedIsAboveWhatWasGranted"},
	{drop(intentLua+"requeue.lua", `present ~= id`, 1, true), "I2", "TestRequeueOnlyWhatHasEnded"},
	{drop(intentLua+"stop.lua", `state == 'ENDED'`, 1, false), "I5", "TestStop"},
	{drop(intentLua+"sweep.lua", `tonumber(since) > ms`, 1, false), "I3", "TestClockThatIsSetBack"},
	{drop(intentLua+"sweep.lua", `beat > 0`, 1, true), "I5", "TestSweepLeavesWhatHasItsLease"},
	{drop(intentLua+"sweep.lua", `worker == me`, 2, true), "I3", "TestSweep"},
	{drop(intentLua+"sweep.lua", `#groups > 0`, 1, true), "I3", "TestSweepPublishesAgain"},
	{drop(intentLua+"sweep.lua", `#left == 0`, 1, true), "I7", "TestSweepIsBounded"},
	{drop(intentLua+"sweep.lua", `(soft('ZCARD', owned(worker)) or 0) == 0`, 1, true), "I5", "TestSweepLeavesWhatHasItsLease"},
	{drop(intentLua+"sweep.lua", `alive(r[3])`, 1, true), "I3", "TestSweepPublishesAgain"},
	{drop(intentLua+"sweep.lua", `worker ~= me`, 1, true), "I7", "TestSweepHasAnEnd"},
	{drop(intentLua+"sweep.lua", `#pending == limit`, 1, true), "I7", "TestSweepHasAnEnd"},
	{drop(intentLua+"sweep.lua", `r[3] ~= worker`, 1, false), "I5", "TestSweepLeavesWhatRuns"},
	{drop(intentLua+"sweep.lua", `kept < limit`, 1, true), "I7", "TestSweepHasAnEnd"},
	{drop(intentLua+"sweep.lua", `worker ~= me`, 2, true), "I5", "TestSweepLeavesWhatRuns"},
	{drop(intentLua+"sweep.lua", `not alive(worker)`, 1, true), "I5", "TestSweepLeavesWhatRuns"},
	{drop(intentLua+"sweep.lua", `#groups > 0`, 3, true), "I3", "TestSweepGoesOn"},
	{drop(intentLua+"sweep.lua", `(r[2] or '') == ''`, 1, false), "I3", "TestSweepGoesOn"},
	{drop(intentLua+"sweep.lua", `not (r[5] and r[6] and r[7])`, 1, false), "I3", "TestSweepGoesOn"},
	{drop(intentLua+"sweep.lua", `type(server) == 'string'`, 1, true), "I3", "TestSweepGoesOn"},
	{drop(intentLua+"sweep.lua", `redis.call('EXISTS', bus) == 1`, 1, true), "I3", "TestSweepGoesOn"},
	{drop(intentLua+"sweep.lua", `#groups > 0`, 2, true), "I3", "TestSweepGoesOn"},
	{drop(intentLua+"write.lua", `now[6] ~= ARGV[14]`, 1, false), "I3", "TestWritesAreFenced"},
	{drop(intentLua+"write.lua", `now[1] ~= 'RUNNING'`, 1, true), "I3", "TestTakenOverStartIsNotEnded"},
	{drop(intentLua+"write.lua", `over()`, 1, true), "I3", "TestTakenOverStartIsNotEnded"},
	{drop(intentLua+"write.lua", `pending[2] ~= worker`, 1, true), "I3", "TestTakenOverStartIsNotEnded"},
	{drop(intentLua+"write.lua", `redis.pcall('GET', ARGV[15]) ~= worker`, 1, true), "I3", "TestLateRunning"},
	{drop(intentLua+"write.lua", `now[1] == 'RUNNING'`, 1, false), "I5", "TestLateStarting"},
	{drop(intentLua+"write.lua", `state == 'STARTING'`, 1, true), "I5", "TestLateStarting"},
	{drop(intentLua+"write.lua", `ARGV[10] ~= ''`, 1, true), "I5", "TestLifeOfASession"},
	{drop(intentLua+"write.lua", `ARGV[9] ~= ''`, 1, true), "I3", "TestSweepPublishesAgain"},
	{drop(intentLua+"write.lua", `redis.pcall('GET', prefix .. 'idem:' .. now[3]) == id`, 1, true), "I2", "TestKeyOfWhatRuns"},
	{drop(intentLua+"write.lua", `state == 'RUNNING'`, 1, true), "I2", "TestKeyOfWhatRuns"},
}

const nobodyNamed = "Equivalent: a notice that names nobody is heard by all and changes nothing."

// spared are those that no guarantee misses, and why: they harm nobody.
var spared = []struct {
	Drop
	Why string
}{
	{drop(luaDir+"acquire.lua", `#taken > 2`, 1, true), nobodyNamed},
	{drop(luaDir+"epoch.lua", `type(epoch) == 'table'`, 1, false), "Equivalent: the next line fails the script as well, with other words."},
	{drop(luaDir+"epoch.lua", `n > 0`, 1, true), "Equivalent: a fence is the greatest of this and Redis' clock, which is above 0."},
	{drop(luaDir+"owners.lua", `#KEYS < 2`, 1, false), "Equivalent: who has no sessions does not call it."},
	{drop(luaDir+"pass.lua", `#freed > 2`, 1, true), nobodyNamed},
	{drop(luaDir+"release.lua", `#freed > 2`, 1, true), nobodyNamed},
	{drop(intentLua+"common.lua", `entry ~= ''`, 1, true), "Equivalent: Redis refuses an empty ID, and nobody looks at it."},
	{drop(intentLua+"write.lua", `now[5] ~= worker`, 1, true), "Equivalent: it is put there again in the same step, or ends."},
	{drop(intentLua+"write.lua", `state ~= 'ENDED'`, 1, true), "Equivalent: what ends is taken out of that set, who needs no sweep is swept."},
}

func drop(script, what string, nth int, as bool) Drop {
	return Drop{Script: script, What: what, Nth: nth, As: as}
}

// drops are the mutants of comparisons.
func drops() []Mutant {
	all := make([]Mutant, 0, len(seen)+len(tested))
	for _, s := range seen {
		all = append(all, Mutant{Name: s.Name(), Story: s.story(), By: DropComparison, Breaks: s.breaks, Seeds: s.seeds,
			Scenario: s.scenario, Drop: s.Drop})
	}
	for _, s := range tested {
		m := Mutant{Name: s.Name(), Story: s.story(), By: DropComparison, Breaks: s.breaks, Package: "internal/redisstore",
			Test: s.test, Drop: s.Drop}
		switch {
		case strings.HasPrefix(s.Script, intentLua):
			m.Package, m.Scenario = "lease/intent/store", stormOfIntents
		case s.Script == luaDir+"sweep.lua": // whose heartbeats only elections have
			m.Scenario = stormOfElections
		}
		all = append(all, m)
	}
	return all
}

func (d Drop) story() string {
	return fmt.Sprintf("`%s` of %s counts as %v.", strings.ReplaceAll(d.What, "|", "\\|"), path.Base(d.Script), d.As)
}
