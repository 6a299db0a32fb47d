package intent

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for _, tt := range []struct {
		in   Request
		form string // "": refused
	}{
		{Request{Resource: "1:0:1:445D:453:1:C00000:0:0:0:"}, "v1:stream.start:1:0:1:445D:453:1:C00000:0:0:0:default:0"},
		{Request{Resource: "1:0:1:445D:453:1:C00000:0:0:0"}, "v1:stream.start:1:0:1:445D:453:1:C00000:0:0:0:default:0"},
		{Request{Resource: "a", Profile: "hd.1_x-Y"}, "v1:stream.start:a:hd.1_x-Y:0"},
		{Request{Resource: "a", At: 1_700_000_000_999}, "v1:stream.start:a:default:1700000000"},
		{Request{Resource: "a", At: atMin}, "v1:stream.start:a:default:1"},
		{Request{Resource: strings.Repeat("a", resourceMax)}, "v1:stream.start:" + strings.Repeat("a", resourceMax) + ":default:0"},
		{Request{}, ""},
		{Request{Resource: ":::"}, ""},
		{Request{Resource: "a b"}, ""},
		{Request{Resource: "a\x00"}, ""},
		{Request{Resource: "a\n"}, ""},
		{Request{Resource: "ä"}, ""},
		{Request{Resource: "a\x7f"}, ""},
		{Request{Resource: strings.Repeat("a", resourceMax+1)}, ""},
		{Request{Resource: strings.Repeat(":", 10<<10)}, ""},
		{Request{Resource: "a", Profile: "b:c"}, ""},
		{Request{Resource: "a", Profile: "b c"}, ""},
		{Request{Resource: "a", Profile: strings.Repeat("p", profileMax+1)}, ""},
		{Request{Resource: "a", At: 999}, ""},
		{Request{Resource: "a", At: -1}, ""},
		{Request{Resource: "a", At: atMax + 1}, ""},
	} {
		s, err := tt.in.Canonical(ADR003())
		if tt.form == "" {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v is accepted: %v", tt.in, err)
			}
			continue
		}
		if err != nil || s.form(ADR003()) != tt.form {
			t.Errorf("%+v: %q %v, want %q", tt.in, s.form(ADR003()), err, tt.form)
		}
		if again, err := s.Canonical(ADR003()); err != nil || again != s {
			t.Errorf("%+v: canonical twice is %+v, %v", tt.in, again, err)
		}
	}
}

// The keys of the two forms, computed by another program:
// printf %s 'v1:stream.start:a:default:0' | sha256sum
func TestKey(t *testing.T) {
	for want, names := range map[string]Names{
		"aba4cf9ecd1f85888a568f2c6ad02382ce7bdfe2098bc8cc788d29c329027553": ADR003(),
		"77e2cbc9b46847a556a6b092d5c6b321bbfe0bcdc682281136cd7604af1cf3aa": {},
	} {
		if got := (Request{Resource: "a", Profile: "default"}).Key(names); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Read from its end, a form gives back its request, so no two different requests share one.
func FuzzCanonical(f *testing.F) {
	f.Add("1:0:1:445D:453:1:C00000:0:0:0:", "hd", int64(0))
	f.Add("a", "b:c", int64(1000))
	f.Add("a:b", "c", int64(1_700_000_000_000))
	f.Fuzz(func(t *testing.T, ref, profile string, start int64) {
		s, err := Request{Resource: ref, Profile: profile, At: start}.Canonical(ADR003())
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		rest, ok := strings.CutPrefix(s.form(ADR003()), "v1:stream.start:")
		words := strings.Split(rest, ":")
		n := len(words)
		if !ok || n < 3 || strings.Join(words[:n-2], ":") != s.Resource || words[n-2] != s.Profile ||
			words[n-1] != strconv.FormatInt(s.At/1000, 10) || (words[n-1] == "0") != (s.At == 0) {
			t.Fatalf("%+v is %q", s, s.form(ADR003()))
		}
		if again, err := s.Canonical(ADR003()); err != nil || again != s {
			t.Fatalf("canonical twice: %+v, %v", again, err)
		}
	})
}
