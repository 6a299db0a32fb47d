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

// take waits for the turn of a list of token, or says that it has not come in time.
func (t *turns) take(ctx context.Context, token *Token) (turn, *problem) {
	wait, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	own, its := t.of(token), turn{}
	for _, place := range []chan struct{}{own.pages, own.reads, t.all} {
		select {
		case place <- struct{}{}:
			its = append(its, place)
		case <-wait.Done():
			its.back(0)
			return nil, late("rate", "lists are read one at a time, and others came first", turnPatience)
		}
	}
	return its, nil
}

// turn is the places that a list has: that of its page, and until it is read those of reading.
type turn []chan struct{}

// back gives places back until so many are left, the first ones.
func (t *turn) back(left int) {
	for ; len(*t) > left; *t = (*t)[:len(*t)-1] {
		<-(*t)[len(*t)-1]
	}
}
