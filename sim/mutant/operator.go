package mutant

import (
	"slices"
	"strings"
)

// Operator is the kind of a change. Mutants are made by going through these for every part of leases, not by taste.
type Operator string

// The operators.
const (
	DropComparison Operator = "drop a comparison"
	ShortenMargin  Operator = "shorten a margin" // drop, halve, or take a part of it
	ChangeWait     Operator = "change a wait"    // by 20 %, or by more where a promise has that much room
	SwapCauses     Operator = "swap two causes"  // or words
	SkipOne        Operator = "skip one"         // of N, or the one that there is
	DoTwice        Operator = "do twice"         // or early, or for another too
	Forget         Operator = "forget"           // after a silence or a loss
	Replace        Operator = "replace"          // by what others ship: another algorithm, clock or command
)

// Operators are all of them.
var Operators = []Operator{DropComparison, ShortenMargin, ChangeWait, SwapCauses, SkipOne, DoTwice, Forget, Replace}

// Areas are the parts that every operator is tried on. Of the rules there are mutants too.
var Areas = []string{"scripts", "shell", "election", "intents"}

// senseless says of an operator and an area why no mutant there can be made, or is needed.
var senseless = map[string]map[Operator]string{
	"election": {
		ShortenMargin: "a leadership's margin is that of its lease: `no-margin` and `margin-a-tenth-short`, of the rules",
		Replace:       "what others ship is played as a whole: `sim/mutant/sovereign`, caught by `TestSovereignIsCaught`",
	},
}

// areas are the mutants of each area.
func areas() map[string][]Mutant {
	all := map[string][]Mutant{"scripts": scripts, "shell": shell, "election": elections, "intents": intents}
	for _, m := range drops() {
		area := "scripts"
		if strings.HasPrefix(m.Drop.Script, intentLua) {
			area = "intents"
		}
		all[area] = append(slices.Clip(all[area]), m)
	}
	return all
}
