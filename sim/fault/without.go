package fault

import (
	"fmt"
	"slices"
	"strings"
)

// without begins a kind in a list that is taken out of the usual ones.
const without = "-"

// TakenOut returns the kind without its minus, and whether it has one: "-redis-wipe" in a list means all usual kinds but that.
func (k Kind) TakenOut() (Kind, bool) {
	name, out := strings.CutPrefix(string(k), without)
	return Kind(name), out
}

// Wanted returns the kinds that a list means: those it names, or, where it only takes out (or is empty), the usual ones without
// them. The caller owns the slice.
func Wanted(list, usual []Kind) []Kind {
	if len(list) > 0 {
		if _, out := list[0].TakenOut(); !out {
			return slices.Clone(list)
		}
	}
	return slices.DeleteFunc(slices.Clone(usual), func(k Kind) bool { return slices.Contains(list, without+k) })
}

// oneWay refuses a list that names kinds and takes others out: it would not say whether the usual ones are meant.
func oneWay(list []Kind) error {
	for _, k := range list {
		if _, out := k.TakenOut(); out != strings.HasPrefix(string(list[0]), without) {
			return fmt.Errorf("%w: %q beside %q: name the kinds to draw from, or take some out of the usual ones, not both", ErrInvalid,
				string(k), string(list[0]))
		}
	}
	return nil
}

// CheckKinds returns nil if a list of kinds can be drawn from; else the index of the wrong one, and why. Each must be available
// (AvailableOn) and, if check is not nil, pass it.
func CheckKinds(list []Kind, virtual bool, check func(Kind) error) (int, error) {
	if err := oneWay(list); err != nil {
		return 0, err
	}
	for i, k := range list {
		name, out := k.TakenOut()
		err := name.AvailableOn(virtual || out) // what is not there at all can be taken out
		if err == nil && !out && check != nil {
			err = check(name)
		}
		if err != nil {
			return i, err
		}
	}
	return 0, nil
}
