package target

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// FuzzTarget sends polls of any form, one after another. The target answers as documented, and accepts no fence older than the highest one.
func FuzzTarget(f *testing.F) {
	f.Add("s", "a", "5", "b", "4")
	f.Add("s", "", "5", "a", "-1")
	f.Add("t", strings.Repeat("x", 600), "", "\x00", "9223372036854775808")
	f.Fuzz(func(t *testing.T, session, first, firstFence, second, secondFence string) {
		rec := history.NewRecorder()
		target := &Target{clock: host.NewClock(), rec: rec, tell: func(*history.Event) {}, sessions: map[string]*polled{}}
		target.Add("s")
		poll := func(instance, fence string) int {
			req := httptest.NewRequest(http.MethodPost, "/poll/s", nil)
			req.SetPathValue("session", session)
			req.Header = http.Header{"X-Instance": {instance}, "X-Fence": {fence}}
			w := httptest.NewRecorder()
			target.poll(w, req)
			return w.Code
		}
		codes := []int{poll(first, firstFence), poll(second, secondFence), poll("late", "1")}
		accepted, highest := 0, int64(0)
		for _, code := range codes {
			if !slices.Contains([]int{204, 400, 404, 409}, code) || (code == http.StatusNotFound) != (session != "s") {
				t.Fatalf("answered with %v", codes)
			}
			if code == http.StatusNoContent {
				accepted++
			}
		}
		for e := range rec.Events() {
			if e.Kind != history.Arrived {
				continue
			}
			accepted--
			if e.Fence != 0 && e.Fence < highest || e.Instance == "" {
				t.Fatalf("accepted %+v after the fence %d", e, highest)
			}
			highest = max(highest, e.Fence)
		}
		if accepted != 0 {
			t.Fatalf("%v, and %d more arrivals than records", codes, accepted)
		}
	})
}

// FuzzClaim sends the headers of any pipeline. An accepted claim has an instance, slot, service, session and fences.
func FuzzClaim(f *testing.F) {
	f.Add("1", "i", "svc", "id", "5", "6")
	f.Add("", "i", "", "id", "0", "")
	f.Fuzz(func(t *testing.T, slot, instance, service, session, fence, serviceFence string) {
		req := httptest.NewRequest(http.MethodPost, "/tune/1", nil)
		req.SetPathValue("slot", slot)
		req.Header = http.Header{
			"X-Instance": {instance}, "X-Service": {service}, "X-Session": {session}, "X-Fence": {fence}, "X-Service-Fence": {serviceFence},
		}
		w := httptest.NewRecorder()
		c, ok := readClaim(w, req)
		if ok != (w.Code == http.StatusOK) {
			t.Fatalf("taken: %v, and answered with %d", ok, w.Code)
		}
		if ok && (c.instance != instance || c.slot != "tuner:"+slot || c.service != "service:"+service || c.session != session ||
			instance == "" || service == "" || session == "" || c.fence < 0 || c.serviceFence < 0) {
			t.Fatalf("%+v", c)
		}
	})
}
