package worker

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/api"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// answer is one sender's reply.
type answer struct {
	Status    int
	SessionID string
	Replayed  bool
}

// senders sends one start from 200 clients at once, to two APIs in turn, and counts the replies.
func (r *rig) senders(apiLeases bool) map[answer]int {
	r.Helper()
	var urls []string
	for range 2 {
		st, err := store.New(r.client, options)
		r.must(err)
		defer st.Close()
		h, err := api.NewHandler(st, api.Config{
			Tokens: []api.Token{api.NewToken("w", "secret", intent.ScopeWrite)}, LeaseFirst: apiLeases,
		})
		r.must(err)
		srv := httptest.NewServer(h)
		defer srv.Close()
		urls = append(urls, srv.URL)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	got := map[answer]int{}
	go200 := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			body := strings.NewReader(`{"type":"start","resource":"1:0:19:283D:3FB:1:C00000:0:0:0:","profile":"hd"}`)
			req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, urls[i%2]+"/intents", body)
			if err != nil {
				r.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer secret")
			req.Header.Set("Content-Type", "application/json")
			<-go200
			resp, err := client.Do(req)
			if err != nil {
				r.Error(err)
				return
			}
			defer resp.Body.Close()
			a := answer{Status: resp.StatusCode}
			if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
				r.Error(err)
			}
			a.Status = resp.StatusCode // a problem document has a member of that name
			mu.Lock()
			defer mu.Unlock()
			got[a]++
		})
	}
	close(go200)
	wg.Wait()
	return got
}

// oneOfEach checks that one pipeline started, under one lease on the service and one on a slot.
func (r *rig) oneOfEach(id string) {
	r.Helper()
	s := r.wait(id, intent.StateRunning, "")
	r.mu.Lock()
	starts := r.starts
	r.mu.Unlock()
	tuners, services := r.client.Keys(r.Context(), "intent:lease:slot:*").Val(), r.client.Keys(r.Context(), "intent:lease:resource:*").Val()
	if starts != 1 || len(tuners) != 1 || len(services) != 1 || tuners[0] != "intent:lease:slot:"+s.Slot {
		r.Errorf("%d pipelines, leases %v and %v, want one each, for %+v", starts, tuners, services, s)
	}
	if n := r.client.ZCard(r.Context(), "intent:sessions").Val(); n != 1 {
		r.Errorf("%d sessions", n)
	}
	if letters, err := r.store.DeadLetters(r.Context(), "", 1); err != nil || len(letters) != 0 {
		r.Errorf("dead letters %v, %v", letters, err)
	}
}

// ADR 5.1 in phase 2: 200 concurrent equal starts give one session, one entry on the bus and one tuner lease. So do 200 more while it runs.
func TestTwoHundredSenders(t *testing.T) {
	r := newRig(t)
	first := r.senders(false)
	var id string
	for a, n := range first {
		if a.Status != http.StatusAccepted || !a.Replayed && n != 1 || id != "" && a.SessionID != id {
			t.Errorf("%d got %+v", n, a)
		}
		id = a.SessionID
	}
	if accepted := first[answer{http.StatusAccepted, id, false}]; accepted != 1 {
		t.Errorf("%d were accepted: %v", accepted, first)
	}
	if n := r.client.XLen(t.Context(), "intent:bus").Val(); n != 1 {
		t.Errorf("%d events on the bus", n)
	}
	r.run(r.config("w1", "1", "2"))
	r.run(r.config("w2", "1", "2"))
	r.oneOfEach(id)
	if again := r.senders(false); again[answer{http.StatusAccepted, id, true}] != 200 {
		t.Errorf("while it runs: %v", again)
	}
	r.oneOfEach(id)
	if n := r.client.XLen(t.Context(), "intent:bus").Val(); n != 0 {
		t.Errorf("%d events on the bus", n)
	}
}

// ADR 5.1 in phase 1: of 200 concurrent equal starts the API accepts one. The others conflict with its session.
func TestTwoHundredSendersPhase1(t *testing.T) {
	r := newRig(t)
	got := r.senders(true)
	var id string
	for a := range got {
		id = a.SessionID
	}
	if got[answer{http.StatusAccepted, id, false}] != 1 || got[answer{http.StatusConflict, id, false}] != 199 {
		t.Errorf("%v", got)
	}
	if n := r.client.XLen(t.Context(), "intent:bus").Val(); n != 1 {
		t.Errorf("%d events on the bus", n)
	}
	r.run(r.config("w1", "1", "2"))
	r.run(r.config("w2", "1", "2"))
	r.oneOfEach(id)
}
