package respguard

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// What is left of a text is nothing of the password, also where whoever said it cut it, or made spaces of its line ends as Redis does.
func TestWithoutThePassword(t *testing.T) {
	const long = "abcdefgh-ijklmnop"
	for _, c := range []struct{ text, password, want string }{
		{"as it is", "", "as it is"},
		{"", long, ""},
		{"'" + long + "' and " + long, long, "'…' and …"},
		{"AUTH 'app' 'abcdefgh-ijkl' ", long, "AUTH 'app' '…' "},
		{"abcdefgh", long, "…"},
		{"abcdefgx abcdefg", long, "abcdefgx abcdefg"}, // seven bytes may be any word
		{"abcdefgh-abcdefgh-ijklmnop.", long, "……."},
		{"short shor s", "short", "… shor s"},
		{"aaa", "a", "………"},
		{"ababa", "aba", "…"},
		{"abababababab1!", "abababab1", "…!"}, // one begins within another
		{"x first second y", "first\nsecond", "x … y"},
		{"x first\r\nsec y", "first\n second", "x … y"},
		{"end s3cret 'x", "s3cret\n", "end …'x"},
		{`x509: cannot parse URI "http://Kq7\"can\\zz9.x/"`, `Kq7"can\zz9`, `x509: cannot parse URI "http://….x/"`},
		{`unknown "abcdefgh\\secret\"tail" abcdefgh\sec`, `abcdefgh\secret"tail`, `unknown "…" …`},
		{"p\x00ssword-of-m", "p\x00ssword-of-mine", "…"},
	} {
		if got := Without(c.text, c.password); got != c.want {
			t.Errorf("%q without %q: %q, want %q", c.text, c.password, got, c.want)
		}
	}
}

// Redis that has no AUTH, as a managed one, repeats the beginning of what follows it. Of that nothing is shown, of whatever command: the
// password may be one that is not known here, of a provider.
func TestArgumentsThatRedisRepeatsAreLeftOut(t *testing.T) {
	server := redistest.Start(t, redistest.Args("--rename-command", "AUTH", "", "--rename-command", "HELLO", ""))
	password := strings.Repeat("0123456789abcdef", 8)
	for what, o := range map[string]redis.Options{
		"of the client":   {Username: "app", Password: password},
		"of a provider":   {CredentialsProvider: func() (user, of string) { return "app", password }},
		"another command": {OnConnect: func(ctx context.Context, c *redis.Conn) error { return c.Do(ctx, "NONE", password).Err() }},
	} {
		o.Addr, o.MaxRetries = server.Addr(), -1
		client := redis.NewClient(&o)
		client.AddHook(Hide(o.Password))
		errs := []error{client.Incr(t.Context(), "k").Err()}
		_, piped := client.Pipelined(t.Context(), func(p redis.Pipeliner) error { p.Incr(t.Context(), "k"); return nil })
		_ = client.Close()
		for _, err := range append(errs, piped) {
			var said redis.Error
			if !errors.As(err, &said) || strings.Contains(err.Error(), "0123") || !strings.HasPrefix(err.Error(), "ERR unknown command '") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}
