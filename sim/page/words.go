package page

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/check"
)

// plainly formats a duration for a reader: "854 ms", "12.53 s", "10 min".
func plainly(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d < time.Second && d%time.Millisecond != 0 && d < 10*time.Millisecond:
		return fmt.Sprintf("%.2g ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d >= 10*time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%d min", int64(d.Minutes()))
	case d%time.Second == 0:
		return fmt.Sprintf("%d s", int64(d.Seconds()))
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func when(ns int64) string { return fmt.Sprintf("%.3f s", time.Duration(ns).Seconds()) }

func named(id string) string { return strings.TrimSpace(id + " " + check.Promise(id)) }

func clause(detail string) string {
	first, _, _ := strings.Cut(detail, "; ")
	return timed(shown(first))
}

func listed(all []string, most int) string {
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

func ms(ns int64) int64 { return ns / int64(time.Millisecond) }

func us(ns int64) int64 { return ns / int64(time.Microsecond) }

// textMax bounds a node's message, in bytes.
const textMax = 200

func shown(s string) string { return plain.Text(plain.Cut(s, textMax)) }

// Units: times of a break are ns here. Those of the model's faults and marks are ms, those of its events µs.
const (
	perMs = int64(time.Millisecond)
	perUs = int64(time.Microsecond)
)

// aTime matches a moment or a duration in Go's format that is no part of a name.
var aTime = regexp.MustCompile(`(^|[ (])((?:[0-9]+h)?(?:[0-9]+m)?[0-9]+(?:\.[0-9]+)?m?s)\b($|[^-a-zA-Z0-9_])`)

// timed rewrites times as the page's axes show them: "5m9.39627s" becomes 309.396 s.
func timed(text string) string {
	return aTime.ReplaceAllStringFunc(text, func(found string) string {
		p := aTime.FindStringSubmatch(found)
		d, err := time.ParseDuration(p[2])
		if err != nil {
			return found
		}
		length, unit := strings.TrimSuffix(p[2], "s"), " s"
		switch {
		case strings.HasSuffix(length, "m"):
			length, unit = strings.TrimSuffix(length, "m"), " ms"
		case d%(10*time.Millisecond) != 0 || d >= time.Minute:
			length, unit = when(int64(d)), ""
		}
		return p[1] + length + unit + p[3]
	})
}

func inWords(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + plain.Cut(reason, 60) + ")"
}

func less(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}
