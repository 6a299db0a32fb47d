package node

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/api"
)

const tokensEvery = time.Second

// tokenFile is the file of an API's tokens. It is not safe for concurrent use.
type tokenFile struct {
	name    string
	text    string // when last read
	stays   bool   // a regular file, which can be read again, unlike a pipe
	problem string // last logged error; "": none
}

func (f *tokenFile) read() ([]api.Token, error) {
	info, err := os.Stat(f.name)
	if err != nil {
		return nil, err
	}
	f.stays = info.Mode().IsRegular()
	text, err := os.ReadFile(f.name)
	if err != nil {
		return nil, err
	}
	f.text = string(text)
	return f.parse()
}

func (f *tokenFile) parse() ([]api.Token, error) {
	tokens, err := api.ParseTokens(strings.NewReader(f.text), intent.ADR003())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return tokens, nil
}

// watch passes the tokens of a changed file to set until ctx ends. It logs an error once and keeps the previous tokens.
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
	text, err := os.ReadFile(f.name)
	if err == nil {
		if f.text == string(text) {
			return
		}
		f.text = string(text)
		var tokens []api.Token
		if tokens, err = f.parse(); err == nil {
			err = set(tokens)
		}
	}
	switch {
	case err == nil:
		f.problem = ""
		log.Info("tokens reread", zap.String("file", f.name))
	case err.Error() != f.problem:
		f.problem = err.Error()
		log.Warn("tokens could not be reread; the earlier ones stay valid", zap.String("file", f.name), zap.Error(err))
	}
}
