package intent

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for _, tt := range []struct {
		in   Start
		form string // "": refused
	}{
		{Start{ServiceRef: "1:0:1:445D:453:1:C00000:0:0:0:"}, "v1:stream.start:1:0:1:445D:453:1:C00000:0:0:0:default:0"},
		{Start{ServiceRef: "1:0:1:445D:453:1:C00000:0:0:0"}, "v1:stream.start:1:0:1:445D:453:1:C00000:0:0:0:default:0"},
		{Start{ServiceRef: "a", Profile: "hd.1_x-Y"}, "v1:stream.start:a:hd.1_x-Y:0"},
		{Start{ServiceRef: "a", StartMs: 1_700_000_000_999}, "v1:stream.start:a:default:1700000000"},
		{Start{ServiceRef: "a", StartMs: StartMsMin}, "v1:stream.start:a:default:1"},
		{Start{ServiceRef: strings.Repeat("a", ServiceRefMax)}, "v1:stream.start:" + strings.Repeat("a", ServiceRefMax) + ":default:0"},
		{Start{}, ""},
		{Start{ServiceRef: ":::"}, ""},
		{Start{ServiceRef: "a b"}, ""},
		{Start{ServiceRef: "a\x00"}, ""},
		{Start{ServiceRef: "a\n"}, ""},
		{Start{ServiceRef: "ä"}, ""},
		{Start{ServiceRef: "a\x7f"}, ""},
		{Start{ServiceRef: strings.Repeat("a", ServiceRefMax+1)}, ""},
		{Start{ServiceRef: strings.Repeat(":", 10<<10)}, ""},
		{Start{ServiceRef: "a", Profile: "b:c"}, ""},
		{Start{ServiceRef: "a", Profile: "b c"}, ""},
		{Start{ServiceRef: "a", Profile: strings.Repeat("p", ProfileMax+1)}, ""},
		{Start{ServiceRef: "a", StartMs: 999}, ""},
		{Start{ServiceRef: "a", StartMs: -1}, ""},
		{Start{ServiceRef: "a", StartMs: StartMsMax + 1}, ""},
	} {
		s, err := tt.in.Canonical()
		if tt.form == "" {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v is accepted: %v", tt.in, err)
			}
			continue
		}
		if err != nil || s.CanonicalForm() != tt.form {
			t.Errorf("%+v: %q %v, want %q", tt.in, s.CanonicalForm(), err, tt.form)
		}
		if again, err := s.Canonical(); err != nil || again != s {
			t.Errorf("%+v: canonical twice is %+v, %v", tt.in, again, err)
		}
	}
}

// The key of the specification's form, computed by another program:
// printf %s 'v1:stream.start:a:default:0' | sha256sum
func TestKey(t *testing.T) {
	const want = "aba4cf9ecd1f85888a568f2c6ad02382ce7bdfe2098bc8cc788d29c329027553"
	if got := (Start{ServiceRef: "a", Profile: "default"}).Key(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Read from its end, a form gives back what it was made of: no two different starts share one.
func FuzzCanonical(f *testing.F) {
	f.Add("1:0:1:445D:453:1:C00000:0:0:0:", "hd", int64(0))
	f.Add("a", "b:c", int64(1000))
	f.Add("a:b", "c", int64(1_700_000_000_000))
	f.Fuzz(func(t *testing.T, ref, profile string, start int64) {
		s, err := Start{ServiceRef: ref, Profile: profile, StartMs: start}.Canonical()
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		rest, ok := strings.CutPrefix(s.CanonicalForm(), "v1:stream.start:")
		words := strings.Split(rest, ":")
		n := len(words)
		if !ok || n < 3 || strings.Join(words[:n-2], ":") != s.ServiceRef || words[n-2] != s.Profile ||
			words[n-1] != strconv.FormatInt(s.StartMs/1000, 10) || (words[n-1] == "0") != (s.StartMs == 0) {
			t.Fatalf("%+v is %q", s, s.CanonicalForm())
		}
		if again, err := s.Canonical(); err != nil || again != s {
			t.Fatalf("canonical twice: %+v, %v", again, err)
		}
	})
}

func TestPhaseFromEnv(t *testing.T) {
	for _, tt := range []struct {
		env      map[string]string
		want     bool
		warnings int
		bad      bool
	}{
		{map[string]string{}, false, 0, false},
		{map[string]string{"LEASESTORM_API_LEASES": "true"}, true, 0, false},
		{map[string]string{"XG2G_V3_API_LEASES": "1"}, true, 0, false},
		{map[string]string{"XG2G_V3_API_LEASES": "1", "LEASESTORM_API_LEASES": "true"}, true, 0, false},
		{map[string]string{"XG2G_V3_API_LEASES": "1", "LEASESTORM_API_LEASES": "0"}, false, 0, true},
		{map[string]string{"LEASESTORM_API_LEASES": "maybe"}, false, 0, true},
		{map[string]string{"XG2G_IDEM_SECRET": "s"}, false, 1, false},
	} {
		got, warnings, err := PhaseFromEnv(func(k string) string { return tt.env[k] })
		if got != tt.want || len(warnings) != tt.warnings || (err != nil) != tt.bad {
			t.Errorf("%v: %v %v %v", tt.env, got, warnings, err)
		}
	}
}
