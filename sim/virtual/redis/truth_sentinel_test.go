package redis

import (
	"fmt"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// toSentinel are commands whose replies must be those of a sentinel, byte by byte.
const toSentinel = `PING
	SENTINEL GET-MASTER-ADDR-BY-NAME boss
	sentinel get-master-addr-by-name nobody
	SENTINEL GET-MASTER-ADDR-BY-NAME
	SENTINEL SENTINELS boss
	SENTINEL SENTINELS nobody
	SENTINEL REPLICAS boss
	SENTINEL SLAVES boss
	SENTINEL REPLICAS nobody
	SENTINEL SLAVES boss and more
	SENTINEL no-such
	SENTINEL
	ROLE
	GET k
	MULTI
	SELECT 0
	ECHO hello
	RESET
	EVAL "return 1" 0
	CLIENT SETNAME me
	CLIENT GETNAME
	CLIENT SETINFO LIB-NAME x
	SUBSCRIBE +switch-master -sdown
	SENTINEL SENTINELS boss
	PING
	UNSUBSCRIBE +switch-master -sdown
	SENTINEL SENTINELS boss
	QUIT`

// A client of the model's sentinel reads the same bytes as one of a real sentinel.
func TestSentinelIsLikeRedis(t *testing.T) {
	master := redistest.Start(t)
	srv := redistest.StartSentinel(t, master)
	model := frontOfTest()
	model.Config.Watch = func() Watch { return Watch{Name: redistest.MasterName, Master: addrOf(master)} }
	for _, resp3 := range []bool{false, true} {
		l := newLine(t, srv, model, resp3)
		for text := range strings.Lines(toSentinel) {
			l.ask(0, wordsOf(text, ""))
			if diff := l.compare(false); diff != "" {
				t.Errorf("RESP3 %v, %s: %s", resp3, strings.TrimSpace(text), diff)
			}
		}
		_ = l.real.Close()
	}
}

// A failover client of the model finds the master and the replicas, and learns of another master.
func TestGoRedisFindsTheMaster(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *wired, client *goredis.Client) {
		one, two, three := Addr{"10.0.0.1", "1"}, Addr{"10.0.0.1", "2"}, Addr{"10.0.0.1", "3"}
		seen := Watch{Name: "boss", Master: one, Replicas: []Watched{{Addr: two, RunID: "b"}, {Addr: three, Down: true}}}
		w.redis.Config.Watch = func() Watch { return seen }
		sentinel := goredis.NewSentinelClient(client.Options())
		defer sentinel.Close()
		addr, err := sentinel.GetMasterAddrByName(t.Context(), "boss").Result()
		if err != nil || fmt.Sprint(addr) != "[10.0.0.1 1]" {
			t.Error(addr, err)
		}
		all, err := sentinel.Replicas(t.Context(), "boss").Result()
		if err != nil || len(all) != 2 || all[0]["port"] != "2" || all[0]["flags"] != "slave" || all[1]["flags"] != "s_down,slave,disconnected" {
			t.Error(all, err)
		}
		heard := sentinel.Subscribe(t.Context(), "+switch-master")
		defer heard.Close()
		if _, err := heard.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.do(func() {
			seen.Master = two
			w.redis.Switched(one)
		})
		if m, err := heard.ReceiveMessage(t.Context()); err != nil || m.Payload != "boss 10.0.0.1 1 10.0.0.1 2" {
			t.Error(m, err)
		}
	})
}

// A real sentinel tells of a failover, and of the replicas, in the words of the model.
func TestSwitchIsLikeSentinelLong(t *testing.T) {
	if testing.Short() {
		t.Skip("a failover of a real sentinel")
	}
	r := redistest.StartReplicated(t)
	before, srv := addrOf(r.Master()), r.Sentinels[0]
	sentinel := goredis.NewSentinelClient(&goredis.Options{Addr: srv.Addr()})
	defer sentinel.Close()
	seen := Watch{Name: redistest.MasterName, Master: before}
	model := frontOfTest()
	model.Config.Watch = func() Watch { return seen }
	var real map[string]string
	redistest.Eventually(t, "two known replicas", func() bool {
		all, _ := sentinel.Replicas(t.Context(), redistest.MasterName).Result()
		if len(all) < 2 || all[0]["master-link-status"] != "ok" || all[1]["master-link-status"] != "ok" {
			return false
		}
		real = all[0]
		return true
	})
	seen.Replicas = []Watched{{Addr: Addr{real["ip"], real["port"]}, RunID: real["runid"]}}
	fields := seen.replicas().([]Reply)[0].(dict)
	for i := 0; i < len(fields); i += 2 {
		if got := real[fields[i].(string)]; got != fields[i+1] {
			t.Errorf("%s: %q, the model has %q", fields[i], got, fields[i+1])
		}
	}
	l := newLine(t, srv, model, false)
	defer l.real.Close()
	l.ask(0, []string{"SUBSCRIBE", "+switch-master"})
	if diff := l.compare(false); diff != "" {
		t.Fatal(diff)
	}
	srv.Do("SENTINEL", "FAILOVER", redistest.MasterName)
	redistest.Eventually(t, "another master", func() bool {
		now, err := sentinel.Master(t.Context(), redistest.MasterName).Result() // unlike its address, from the switch on
		if err == nil {
			seen.Master = Addr{now["ip"], now["port"]}
		}
		return err == nil && seen.Master != before
	})
	model.Switched(before)
	if diff := l.compare(false); diff != "" {
		t.Error(diff)
	}
}

func addrOf(s *redistest.Server) Addr {
	host, port, _ := strings.Cut(s.Addr(), ":")
	return Addr{host, port}
}
