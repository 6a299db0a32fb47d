package node

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/queue"
	"github.com/leasestorm/leasestorm/lease/intent/api"
)

const (
	tokensMax   = 1 << 20 // more bytes than any file of tokens has
	tokensEvery = time.Second
	tellsMax    = 1000 // entries of the log about it that wait
)

// tokenFile is the file of an API's tokens. Not safe for concurrent use.
type tokenFile struct {
	name    string
	text    string // when it was last good
	stays   bool   // it can be read again: a pipe cannot
	bad     string // what it says since, where that are no tokens
	why     error  // nil: it says nothing that are none
	problem string // what the log was told is wrong with it, "" if nothing is
}

// read returns the tokens in the file, of which nothing is known yet.
func (f *tokenFile) read() (tokens []api.Token, err error) {
	text, stays, err := readTokens(f.name)
	if err != nil {
		return nil, err
	}
	if tokens, err = f.parse(text); err != nil {
		return nil, err
	}
	f.text, f.stays = text, stays
	return tokens, nil
}

func (f *tokenFile) parse(text string) ([]api.Token, error) {
	tokens, err := api.ParseTokens(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return tokens, nil
}

// watch hands the tokens of a file that has changed to set, until ctx ends. What is wrong with it is logged once; the tokens before
// stay. What is compared is what it says: a link may lead elsewhere, and two changes may have one time.
func (f *tokenFile) watch(ctx context.Context, set func([]api.Token) error, log *zap.Logger) {
	// Whoever reads the log may have stalled: no token that was taken out stays for that.
	entries := queue.New(tellsMax, func(write entry, _ int64) { write(log) })
	ticker := time.NewTicker(tokensEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f.look(set, entries.Put)
		case <-ctx.Done():
			return
		}
	}
}

// entry writes one of the log.
type entry func(*zap.Logger)

func (f *tokenFile) look(set func([]api.Token) error, tell func(entry)) {
	err := f.again(set, tell)
	if err == nil {
		f.problem = ""
		return
	}
	if err.Error() != f.problem {
		f.problem = err.Error()
		tell(func(log *zap.Logger) {
			log.Warn("tokens not read again; those that were read before stay", zap.String("file", f.name), zap.Error(err))
		})
	}
}

// again reads the file. Only what it did not say the last time is taken apart.
func (f *tokenFile) again(set func([]api.Token) error, tell func(entry)) error {
	text, _, err := readTokens(f.name)
	switch {
	case err != nil:
		return err
	case f.why != nil && text == f.bad:
		return f.why
	case text == f.text:
		f.bad, f.why = "", nil
		return nil
	}
	tokens, err := f.parse(text)
	if err == nil {
		err = set(tokens)
	}
	if err != nil {
		f.bad, f.why = text, err
		return err
	}
	f.text, f.bad, f.why = text, "", nil
	tell(func(log *zap.Logger) {
		log.Info("tokens read again", zap.String("file", f.name), zap.Int("tokens", len(tokens)))
	})
	return nil
}

// readTokens reads a file that only its owner can write: whoever else could would give himself a token. stays: it is one that can be
// read again.
func readTokens(name string) (text string, stays bool, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	const others = 0o022
	info, err := f.Stat()
	if err != nil {
		return "", false, err
	}
	stays = info.Mode().IsRegular()
	if stays && info.Mode().Perm()&others != 0 {
		return "", false, fmt.Errorf("%s can be written by others than its owner (%v), who could add a token; chmod go-w %s", name,
			info.Mode().Perm(), name)
	}
	all, err := io.ReadAll(io.LimitReader(f, tokensMax+1))
	if err == nil && len(all) > tokensMax {
		err = fmt.Errorf("%s has more than %d bytes", name, tokensMax)
	}
	return string(all), stays, err
}
