package api

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// turnPatience is how long a list waits for its turn.
const turnPatience = time.Second

// pagesMax is how many lists of one token are read or being written at once: each is up to 400 KB, for as long as its client reads nothing.
const pagesMax = 4

// turns lets one list at a time be read, of one token and of all: a list costs Redis what two hundred reads of a session do, and there may
// be a thousand at once, each before the renewals. Those of one token wait for each other first, so that another's waits for one of them.
// Safe for concurrent use.
type turns struct {
	all chan struct{}

	mu     sync.Mutex
	tokens map[[sha256.Size]byte]*places
}

// places are those of one token.
type places struct{ pages, reads chan struct{} }

func newTurns() *turns {
	return &turns{all: make(chan struct{}, 1), tokens: map[[sha256.Size]byte]*places{}}
}

func (t *turns) of(token *Token) *places {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.tokens[token.SHA256]
	if p == nil {
		p = &places{pages: make(chan struct{}, pagesMax), reads: make(chan struct{}, 1)}
		t.tokens[token.SHA256] = p
	}
	return p
}

// run reads a list of token when its turn has come, and writes it, or says that its turn has not come in time.
func (t *turns) run(ctx context.Context, token *Token, read func(), write func() *problem) *problem {
	wait, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	own, in := t.of(token), false
	var p *problem
	if placed(wait, []chan struct{}{own.pages}, func() {
		if in = placed(wait, []chan struct{}{own.reads, t.all}, read); in {
			p = write()
		}
	}); in {
		return p
	}
	p = late("rate", "lists are read one at a time, and others came first", turnPatience)
	p.token = token
	return p
}

// placed calls f in all of the places, when each has become free, and reports whether they were in time.
func placed(wait context.Context, places []chan struct{}, f func()) bool {
	for _, place := range places {
		select {
		case place <- struct{}{}:
			defer func() { <-place }()
		case <-wait.Done():
			return false
		}
	}
	f()
	return true
}
