package node

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/readfile"
	"github.com/leasestorm/leasestorm/lease/intent/api"
)

const (
	tokensMax   = 1 << 20 // more bytes than any file of tokens has
	tokensEvery = time.Second
)

// tokenFile is the file of an API's tokens. Not safe for concurrent use.
type tokenFile struct {
	name    string
	text    string // when it was last good
	stays   bool   // it can be read again: a pipe cannot
	problem string // what the log was told is wrong with it, "" if nothing is
}

// read returns the tokens in the file.
func (f *tokenFile) read() ([]api.Token, error) {
	open := os.Open
	if f.stays { // who put a pipe in its place has it waited for, and no token is taken away any more
		open = readfile.Open
	}
	text, stays, err := readTokens(f.name, open)
	if err != nil {
		return nil, err
	}
	tokens, err := api.ParseTokens(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	f.text, f.stays = text, stays
	return tokens, nil
}

// watch hands the tokens of a file that has changed to set, until ctx ends. What is wrong with it is logged once; the tokens before
// stay. What is compared is what it says: a link may lead elsewhere, and two changes may have one time.
func (f *tokenFile) watch(ctx context.Context, set func([]api.Token) error, log *zap.Logger) {
	ticker := time.NewTicker(tokensEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f.look(set, log)
		case <-ctx.Done():
			return
		}
	}
}

func (f *tokenFile) look(set func([]api.Token) error, log *zap.Logger) {
	before := f.text
	tokens, err := f.read()
	if err == nil && f.text != before {
		if err = set(tokens); err == nil {
			log.Info("tokens read again", zap.String("file", f.name), zap.Int("tokens", len(tokens)))
		}
	}
	if err == nil {
		f.problem = ""
		return
	}
	f.text = before
	if err.Error() != f.problem {
		f.problem = err.Error()
		log.Warn("tokens not read again; those that were read before stay", zap.String("file", f.name), zap.Error(err))
	}
}

// readTokens reads a file that only its owner can write: whoever else could would give himself a token. stays: it is one that can be
// read again.
func readTokens(name string, open func(string) (*os.File, error)) (text string, stays bool, err error) {
	f, err := open(name)
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
