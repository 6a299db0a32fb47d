package api

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// turnPatience is how long a list waits for its turn.
const turnPatience = time.Second

// turns lets one list at a time be read, of one token and of all: a list costs Redis what two hundred reads of a session do, and there may
// be a thousand at once, each before the renewals. Those of one token wait for each other first, so that another's waits for one of them.
// Safe for concurrent use.
type turns struct {
	all chan struct{}

	mu     sync.Mutex
	tokens map[[sha256.Size]byte]chan struct{}
}

func newTurns() *turns {
	return &turns{all: make(chan struct{}, 1), tokens: map[[sha256.Size]byte]chan struct{}{}}
}

func (t *turns) of(token *Token) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.tokens[token.SHA256]
	if c == nil {
		c = make(chan struct{}, 1)
		t.tokens[token.SHA256] = c
	}
	return c
}

// run reads a list of token when its turn has come, or says that it has not come in time.
func (t *turns) run(ctx context.Context, token *Token, read func()) *problem {
	wait, cancel := context.WithTimeout(ctx, turnPatience)
	defer cancel()
	for _, turn := range []chan struct{}{t.of(token), t.all} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-wait.Done():
			p := late("rate", "lists are read one at a time, and others came first", turnPatience)
			p.token = token
			return p
		}
	}
	read()
	return nil
}
