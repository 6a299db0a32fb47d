package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestHelpThatCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"check", "--help"}, {"help", "merge"}, {"--version"}} {
		var stderr bytes.Buffer
		if code := execute(t.Context(), args, full{}, &stderr); code != exitWrong || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%q: code %d, %q", args, code, stderr.String())
		}
		if code := execute(t.Context(), args, io.Discard, io.Discard); code != exitPass {
			t.Errorf("%q: code %d", args, code)
		}
	}
}

// The target's health check asks the target or nobody.
func TestTargetHealthAsksNobodyElse(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another server was asked") }))
	defer other.Close()
	there := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer there.Close()
	if err := askTarget(t.Context(), strings.TrimPrefix(there.URL, "http://")); err == nil {
		t.Error("a redirection passed for a target")
	}
}
