package api

import (
	"context"
	"net/http"
	"net/http/httptest"
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
	take                time.Duration
	under, atOnce, read int
}

func (s *lists) List(context.Context, string, int) ([]intent.Session, string, error) {
	s.under++
	s.atOnce = max(s.atOnce, s.under)
	<-time.After(s.take)
	s.under--
	s.read++
	return nil, "", nil
}

// listing is an API with two tokens.
func listing(t *testing.T, st Store) *Handler {
	t.Helper()
	h, err := NewHandler(st, Config{Logger: zap.NewNop(), Tokens: []Token{NewToken("many", writer, intent.ScopeRead),
		NewToken("one", reader, intent.ScopeRead)}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// unread is an answer of which no page is read before a channel is closed.
type unread struct {
	*httptest.ResponseRecorder
	until <-chan struct{}
}

func (w unread) Write(b []byte) (int, error) {
	if w.until != nil && w.Code == http.StatusOK {
		<-w.until
	}
	return w.ResponseRecorder.Write(b)
}

// ask asks for a list, whose page is read at once, or when a channel is closed.
func ask(h *Handler, secret string, until <-chan struct{}) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/api/v3/sessions", nil)
	r.RemoteAddr = "127.0.0.1:5000"
	r.Header.Set("Authorization", "Bearer "+secret)
	w := httptest.NewRecorder()
	h.ServeHTTP(unread{w, until}, r)
	return w
}

// However many lists are asked for, one is read at a time. Who waited in vain is told so, and one token's lists keep no other's waiting
// for more than one of them.
func TestListsAreReadOneAtATime(t *testing.T) { // I4
	synctest.Test(t, func(t *testing.T) {
		st := &lists{take: 400 * time.Millisecond}
		h := listing(t, st)
		answers := make(chan *httptest.ResponseRecorder, 100)
		for range cap(answers) {
			go func() { answers <- ask(h, writer, nil) }()
		}
		synctest.Wait()
		asked := time.Now()
		if w, waited := ask(h, reader, nil), time.Since(asked); w.Code != http.StatusOK || waited != 2*st.take {
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
	h, token := listing(t, nil), NewToken("one", reader, intent.ScopeRead)
	var panicked any
	for range pagesMax {
		func() {
			defer func() { panicked = recover() }()
			ask(h, reader, nil) // panics, for there is no store
		}()
	}
	if _, late := h.lists.take(t.Context(), &token); late != nil || panicked == nil {
		t.Fatalf("%v after %v", late, panicked)
	}
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	if _, late := h.lists.take(gone, &token); late == nil {
		t.Error("two at once")
	}
}

// Pages that nobody reads are few, of each token.
func TestPagesThatAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, hung, late := &lists{}, make(chan struct{}), atomic.Int64{}
		h := listing(t, st)
		for range 3 * pagesMax {
			go func() {
				if ask(h, writer, hung).Code == http.StatusTooManyRequests {
					late.Add(1)
				}
			}()
		}
		synctest.Wait()
		if w := ask(h, reader, nil); w.Code != http.StatusOK {
			t.Errorf("another's: %d", w.Code)
		}
		<-time.After(turnPatience)
		synctest.Wait()
		if st.read != pagesMax+1 || late.Load() != 2*pagesMax {
			t.Errorf("%d read, %d late; want %d and %d", st.read, late.Load(), pagesMax+1, 2*pagesMax)
		}
		close(hung)
		synctest.Wait()
	})
}
