// Package redisurl keeps the password of a Redis URL out of everything that is printed: the URL parser's errors quote the URL,
// and so does whoever repeats a wrong argument.
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

// PasswordVariable and PasswordFileVariable are the environment variables of the password and of the file that holds it.
const (
	PasswordVariable     = "LEASESTORM_REDIS_PASSWORD"
	PasswordFileVariable = "LEASESTORM_REDIS_PASSWORD_FILE"
)

// Wanted says what a URL looks like.
const Wanted = "redis://[user:password@]host:port[/db], special characters as %XX"

// ErrURL: the text is no Redis URL. What is wrong with it is not said: every part of it may hold the password.
var ErrURL = errors.New("no Redis URL: write " + Wanted)

// ErrPasswordFile: the file cannot be read, or holds no password.
var ErrPasswordFile = errors.New("file of the Redis password")

// Parse reads a URL. Its only error is ErrURL. Without its // a URL names no host (net/url calls it opaque), and the parser would
// take one on this machine for the server that was meant.
func Parse(raw string) (*redis.Options, error) {
	o, err := redis.ParseURL(raw)
	if _, rest, _ := strings.Cut(raw, ":"); err != nil || o.Network == "tcp" && !strings.HasPrefix(rest, "//") {
		return nil, ErrURL
	}
	return o, nil
}

// Show is where a URL leads, without user, password and settings; of a text that is no URL nothing.
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

// secret matches a URL up to its host. "Redis: " in a sentence begins none.
var secret = regexp.MustCompile(`(?i)(://|rediss?:)\S.*@`)

// Hide leaves out of a message what may be a URL's user and password, whoever quoted the URL: rather too much than too little. Examples of
// a URL stay.
func Hide(text string) string {
	examples := []string{Wanted, "redis://user:password@host"}
	for i, example := range examples { // one in the middle of a password goes with that
		text = strings.ReplaceAll(text, example, string(rune(i)))
	}
	text = secret.ReplaceAllString(text, "${1}…@")
	for i, example := range examples {
		text = strings.ReplaceAll(text, string(rune(i)), example)
	}
	return text
}

// Line is an error, that may join several, on one line of a terminal or a log, without what Hide leaves out.
func Line(err error) string {
	line := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return Hide(line)
}

// passwordMax is far more than Redis takes in an ACL.
const passwordMax = 4096

// Password returns the password that file holds, in its first line, or the one given where file is "".
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

// With returns the URL with another password; "" leaves it as it is. Its only error is ErrURL.
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
