package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// lists is a store of which every list takes a while.
type lists struct {
	Store
	take          time.Duration
	under, atOnce int
}

func (s *lists) List(context.Context, string, int) ([]intent.Session, string, error) {
	s.under++
	s.atOnce = max(s.atOnce, s.under)
	<-time.After(s.take)
	s.under--
	return nil, "", nil
}

// However many lists are asked for, one is read at a time. Who waited in vain is told so, and one token's lists keep no other's waiting
// for more than one of them.
func TestListsAreReadOneAtATime(t *testing.T) { // I4
	synctest.Test(t, func(t *testing.T) {
		st := &lists{take: 400 * time.Millisecond}
		h, err := NewHandler(st, Config{Logger: zap.NewNop(), Tokens: []Token{NewToken("many", writer, intent.ScopeRead),
			NewToken("one", reader, intent.ScopeRead)}})
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan *httptest.ResponseRecorder, 100)
		ask := func(secret string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, "/api/v3/sessions", nil)
			r.RemoteAddr = "127.0.0.1:5000"
			r.Header.Set("Authorization", "Bearer "+secret)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		for range cap(answers) {
			go func() { answers <- ask(writer) }()
		}
		synctest.Wait()
		asked := time.Now()
		if w, waited := ask(reader), time.Since(asked); w.Code != http.StatusOK || waited != 2*st.take {
			t.Errorf("the other token's: %d after %v, want it after one list and its own", w.Code, waited)
		}
		codes := map[int]int{}
		for range cap(answers) {
			w := <-answers
			codes[w.Code]++
			if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "1" {
				t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
			}
		}
		if st.atOnce != 1 || codes[http.StatusOK] != 2 || codes[http.StatusTooManyRequests] != cap(answers)-2 {
			t.Errorf("%d lists at once, answers %v; want one at once, two answered, and the others 429", st.atOnce, codes)
		}
	})
}

// Who hangs up waits for no turn, and a list that panics gives its turn back.
func TestTurnsAreGivenBack(t *testing.T) {
	turns, token := newTurns(), NewToken("t", reader, intent.ScopeRead)
	func() {
		defer func() { _ = recover() }()
		_ = turns.run(t.Context(), &token, func() { panic("list") }, nil)
	}()
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	var read []string
	none := func() *problem { return nil }
	if p := turns.run(t.Context(), &token, func() {
		read = append(read, "first")
		if p := turns.run(gone, &token, func() { read = append(read, "second") }, none); p == nil {
			t.Error("two at once")
		}
	}, none); p != nil || !slices.Equal(read, []string{"first"}) {
		t.Errorf("%v, read %v", p, read)
	}
}

// Pages that nobody reads are few, of each token.
func TestPagesThatAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, token, other := newTurns(), NewToken("t", reader, intent.ScopeRead), NewToken("o", writer, intent.ScopeRead)
		hung, read := make(chan struct{}), atomic.Int64{}
		var late, told atomic.Int64
		for range 3 * pagesMax {
			go func() {
				if p := turns.run(t.Context(), &token, func() { read.Add(1) }, func() *problem { <-hung; return nil }); p != nil {
					late.Add(1)
				}
			}()
		}
		synctest.Wait()
		if p := turns.run(t.Context(), &other, func() { read.Add(1) }, func() *problem { told.Add(1); return nil }); p != nil {
			t.Errorf("another's: %v", p)
		}
		<-time.After(turnPatience)
		synctest.Wait()
		if read.Load() != pagesMax+1 || late.Load() != 2*pagesMax || told.Load() != 1 {
			t.Errorf("%d read, %d late, the other's told %d times; want %d, %d and 1", read.Load(), late.Load(), told.Load(), pagesMax+1, 2*pagesMax)
		}
		close(hung)
		synctest.Wait()
	})
}
