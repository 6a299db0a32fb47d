package real

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
)

// FuzzTarget sends polls of any form, one after another: none is answered with what the target does not promise, and no fence is
// accepted that is older than the highest one.
func FuzzTarget(f *testing.F) {
	f.Add("s", "a", "5", "b", "4")
	f.Add("s", "", "5", "a", "-1")
	f.Add("t", strings.Repeat("x", 600), "", "\x00", "9223372036854775808")
	f.Fuzz(func(t *testing.T, session, first, firstFence, second, secondFence string) {
		rec := history.NewRecorder()
		target := &target{clock: newClock(), rec: rec, tell: func(*history.Event) {}, sessions: map[string]*polled{}}
		target.add("s")
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

// FuzzClaim sends the headers of any pipeline: what is taken names its instance, slot, service and session, and has fences.
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

// FuzzSnapshot reads any beginning of a synchronisation: to its end and not a byte further, or an error.
func FuzzSnapshot(f *testing.F) {
	mark := strings.Repeat("m", 40)
	for _, in := range []string{
		"\n\n$5\r\nREDIS", "$EOF:" + mark + "\r\nREDIS" + mark, "$EOF:\r\n", "$-1\r\n", "$99999999999999999999\r\n", "*1\r\n", "", "$3\r\nRE", "$0\r\n",
		"$EOF:aab\r\naaab",
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const next = "*1\r\n$4\r\nPING\r\n"
		r := bufio.NewReader(io.MultiReader(bytes.NewReader(in), strings.NewReader(next)))
		if err := skipSnapshot(r); err != nil {
			if !errors.Is(err, errProtocol) && !errors.Is(err, io.EOF) {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		rest, err := io.ReadAll(r)
		head := bytes.TrimLeft(in, "\r\n")
		if err != nil || len(rest) > len(in)+len(next) || !strings.HasSuffix(next, string(rest)) && !strings.HasSuffix(string(rest), next) ||
			len(head) > 0 && head[0] != '$' {
			t.Fatalf("%q: there remains %q, %v", in, rest, err)
		}
	})
}
