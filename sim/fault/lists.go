package fault

import (
	"fmt"
	"slices"
	"strings"
)

// ParseKinds parses the comma-separated value of --faults. "-redis-wipe" removes a kind from the usual ones (Wanted). It ignores blanks
// and duplicates and refuses an empty list. Its errors are those of AvailableOn, or wrap ErrInvalid.
func ParseKinds(list string, virtual bool) ([]Kind, error) {
	var out []Kind
	for name := range strings.SplitSeq(list, ",") {
		k := Kind(strings.TrimSpace(name))
		if k == "" {
			continue
		}
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no fault named; choose from %s", ErrInvalid, knownKinds())
	}
	if _, err := CheckKinds(out, virtual, nil); err != nil {
		return nil, err
	}
	return out, nil
}

const without = "-"

// TakenOut returns the kind without a leading minus, and whether it had one. "-redis-wipe" in a list removes that kind.
func (k Kind) TakenOut() (Kind, bool) {
	name, out := strings.CutPrefix(string(k), without)
	return Kind(name), out
}

// Wanted returns the kinds that a list names or, if it names none, the usual ones without those it removes. The caller owns the slice.
func Wanted(list, usual []Kind) []Kind {
	if len(list) > 0 {
		if _, out := list[0].TakenOut(); !out {
			return slices.Clone(list)
		}
	}
	return slices.DeleteFunc(slices.Clone(usual), func(k Kind) bool { return slices.Contains(list, without+k) })
}

func oneWay(list []Kind) error {
	for _, k := range list {
		if _, out := k.TakenOut(); out != strings.HasPrefix(string(list[0]), without) {
			return fmt.Errorf("%w: %q beside %q: name the kinds to draw from, or take some out of the usual ones, not both", ErrInvalid,
				string(k), string(list[0]))
		}
	}
	return nil
}

// CheckKinds returns nil if storms can draw from the list. Otherwise it returns the index of the first wrong kind and its error. Each
// kind must be available (AvailableOn) and, unless check is nil, accepted by check.
func CheckKinds(list []Kind, virtual bool, check func(Kind) error) (int, error) {
	if err := oneWay(list); err != nil {
		return 0, err
	}
	for i, k := range list {
		name, out := k.TakenOut()
		err := name.AvailableOn(virtual || out) // unavailable kinds may be removed
		if err == nil && !out && check != nil {
			err = check(name)
		}
		if err != nil {
			return i, err
		}
	}
	return 0, nil
}
