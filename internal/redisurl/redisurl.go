// Package redisurl keeps the password of a Redis URL out of all output. The URL parser's errors quote the URL, and so do messages that
// repeat a wrong argument.
package redisurl

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// PasswordVariable and PasswordFileVariable are the environment variables of the password and of a file that contains it.
const (
	PasswordVariable     = "LEASESTORM_REDIS_PASSWORD"
	PasswordFileVariable = "LEASESTORM_REDIS_PASSWORD_FILE"
)

// Wanted describes the form of a URL.
const Wanted = "redis://[user:password@]host:port[/db], special characters as %XX"

// ErrURL: the text is no Redis URL. It does not say why, because every part of the text may contain the password.
var ErrURL = errors.New("no Redis URL: write " + Wanted)

// ErrPasswordFile: the file cannot be read, or contains no password.
var ErrPasswordFile = errors.New("file of the Redis password")

// Parse parses a URL. Its only error is ErrURL. It refuses a URL without "//": such a URL has no host (net/url calls it opaque), and
// redis.ParseURL would connect to this machine.
func Parse(raw string) (*redis.Options, error) {
	o, err := redis.ParseURL(raw)
	if _, rest, _ := strings.Cut(raw, ":"); err != nil || o.Network == "tcp" && !strings.HasPrefix(rest, "//") {
		return nil, ErrURL
	}
	return o, nil
}

// Show returns a URL without user, password and query. For a text that is no Redis URL it returns only "a Redis URL".
func Show(raw string) string {
	u, err := url.Parse(raw)
	if _, bad := Parse(raw); err != nil || bad != nil {
		return "a Redis URL"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.User != nil {
		return shown.Scheme + "://…@" + strings.TrimPrefix(shown.String(), shown.Scheme+"://")
	}
	return shown.String()
}

// secret matches a URL up to its host, but not "Redis: " in a sentence.
var secret = regexp.MustCompile(`(?i)(://|rediss?:)\S.*@`)

// Hide removes from a message everything that may be the user and password of a URL, rather too much than too little. This module's
// example URLs stay.
func Hide(text string) string {
	examples := []string{Wanted, "redis://user:password@host"}
	for i, example := range examples { // an example inside a password is removed with the password
		text = strings.ReplaceAll(text, example, string(rune(i)))
	}
	text = secret.ReplaceAllString(text, "${1}…@")
	for i, example := range examples {
		text = strings.ReplaceAll(text, string(rune(i)), example)
	}
	return text
}

// Line returns the text of err, which may join several errors, on one line and passed through Hide.
func Line(err error) string {
	line := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return Hide(line)
}

// passwordMax is the longest password in bytes, far more than Redis needs.
const passwordMax = 4096

// Password returns the first line of file, or given if file is "". Its errors wrap ErrPasswordFile.
func Password(file, given string) (string, error) {
	if file == "" {
		return given, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrPasswordFile, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, passwordMax+1))
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimSuffix(line, "\r")
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrPasswordFile, err)
	case line == "" || len(line) > passwordMax:
		return "", fmt.Errorf("%w: the first line of %s holds none of 1 to %d bytes", ErrPasswordFile, file, passwordMax)
	}
	return line, nil
}

// With returns the URL with its password replaced; an empty password leaves the URL unchanged. Its only error is ErrURL.
func With(raw, password string) (string, error) {
	if password == "" {
		return raw, nil
	}
	u, err := url.Parse(raw)
	if _, bad := Parse(raw); err != nil || bad != nil {
		return "", ErrURL
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String(), nil
}
