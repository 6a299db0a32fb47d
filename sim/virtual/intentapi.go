package virtual

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	prod "github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/api"
	"github.com/leasestorm/leasestorm/lease/intent/store"
	"github.com/leasestorm/leasestorm/sim/client"
)

// intentAPI serves requests with the production handler, each in a routine.
type intentAPI struct {
	*intentProcess
	newID    func() uuid.UUID
	handler  http.Handler // nil: the process has no API
	listens  bool
	pending  map[int64]func(int, []byte) // requests; ranged over only in the order of their numbers
	requests int64
	silent   latch // no request is pending
}

var intentTokens = []api.Token{
	api.NewToken("writer", client.WriteToken, "v3:write", "v3:read"), api.NewToken("reader", client.ReadToken, "v3:read"),
}

func (a *intentAPI) open(s *store.Store) {
	phase1 := a.n.cfg.Intents.Phase1
	a.handler = must(api.NewHandler(s, api.Config{
		Logger: zap.NewNop(), Quotas: api.Quotas{StartRate: -1, Backlog: -1},
		Names: prod.ADR003(), Tokens: intentTokens, LeaseFirst: phase1 != nil && phase1(a.n.slot),
		NewID: func() (uuid.UUID, error) { return a.newID(), nil },
	}))
}

func (a *intentAPI) serve(req *client.Request, done func(int, []byte)) {
	a.requests++
	number := a.requests
	a.pending[number] = done
	a.n.inProcess(0, func() {
		a.begin(func(r *routine) {
			code, body := a.handle(req)
			if answer := a.pending[number]; answer != nil && !r.dead {
				delete(a.pending, number)
				answer(altered(a.n.cfg.Seams.Status, code), body)
				if a.n.draining && len(a.pending) == 0 {
					a.silent.set()
				}
			}
		})
	})
}

func (a *intentAPI) handle(req *client.Request) (code int, body []byte) {
	r := must(http.NewRequestWithContext(a.ctx, req.Method, "http://api"+req.Path, strings.NewReader(req.Body)))
	r.RemoteAddr = "127.0.0.1:1"
	if req.Token != "" {
		r.Header.Set("Authorization", "Bearer "+req.Token)
	}
	if req.ContentType != "" {
		r.Header.Set("Content-Type", req.ContentType)
	}
	out := &answerWriter{header: http.Header{}, code: http.StatusOK}
	a.handler.ServeHTTP(out, r)
	_ = r.Body.Close()
	return out.code, out.Bytes()
}

// apiStopWithin bounds the wait for pending requests when the API stops.
const apiStopWithin = int64(time.Second)

// stop waits until no request is pending. False: the routine must end.
func (a *intentAPI) stop(r *routine) bool {
	if len(a.pending) > 0 {
		return a.silent.wait(r, apiStopWithin)
	}
	return a.silent.wait(r, 0)
}

// hangUp ends the pending requests without an answer.
func (a *intentAPI) hangUp() {
	for _, n := range slices.Sorted(maps.Keys(a.pending)) {
		a.pending[n](0, nil)
	}
	clear(a.pending)
}

type answerWriter struct {
	bytes.Buffer
	header http.Header
	code   int
}

func (a *answerWriter) Header() http.Header  { return a.header }
func (a *answerWriter) WriteHeader(code int) { a.code = code }
