package mutant

import (
	"fmt"
	"regexp"
	"strings"
)

// Drop is a part of a condition of a Lua script that is not looked at any more.
type Drop struct {
	Script string // inside the module
	What   string // the comparison, or the value that is tested
	Nth    int    // of those that read alike in the script, from 1 on
	As     bool   // what it counts as instead
	from   int
	to     int
}

// Name is what a mutant is called that drops it.
func (d Drop) Name() string {
	words := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(notFor(d.What)), "-")
	name := scriptName(d.Script) + "-skips-" + strings.Trim(words, "-")
	if d.Nth > 1 {
		name += fmt.Sprintf("-%d", d.Nth)
	}
	return name
}

// notFor gives operators words, so that names tell what they are about apart.
func notFor(what string) string {
	return strings.NewReplacer("~=", " isnt ", "==", " is ", "<=", " upto ", ">=", " from ",
		"<", " below ", ">", " above ", "#", " n-").Replace(what)
}

// scriptName is the file's name without its extension; those of intents say that they are.
func scriptName(file string) string {
	name := strings.TrimSuffix(file[strings.LastIndexByte(file, '/')+1:], ".lua")
	if strings.HasPrefix(file, intentLua) {
		return "intent-" + name
	}
	return name
}

var condition = regexp.MustCompile(`(?s)\b(?:else)?if\b(.*?)\bthen\b([^\n]*)|\b(?:return\b|local \w+ =)([^\n]*\b(?:and|or)\b[^\n]*)`)

// compares reports whether it is a comparison, or a question, and not a value that is there or not.
func (d Drop) compares() bool {
	return strings.ContainsAny(d.What, "=<>(") || strings.Contains(d.What, "void")
}

// Drops finds every part of every condition of a script: of an if, and of a value that is made of several. A part of a
// conjunction that is not looked at counts as true and one of a disjunction as false. A whole condition counts as false if it
// is what a script stops for, else as true.
func Drops(script, text string) (all []Drop) {
	seen := map[string]int{}
	code := blank(text)
	for _, m := range condition.FindAllStringSubmatchIndex(code, -1) {
		from, to, alone := m[2], m[3], true
		if from >= 0 {
			alone = !stops(code[m[4]:])
		} else {
			from, to = m[6], m[7]
		}
		for _, d := range parts(code, from, to, alone) {
			d.Script, d.What = script, strings.Join(strings.Fields(text[d.from:d.to]), " ")
			if m[2] < 0 && !strings.ContainsAny(d.What, "=<>") {
				continue // a value, not a comparison
			}
			if seen[d.What]++; d.compares() {
				d.Nth = seen[d.What]
				all = append(all, d)
			}
		}
	}
	return all
}

// stops reports whether a branch does nothing but return.
func stops(branch string) bool { return strings.HasPrefix(strings.TrimSpace(branch), "return") }

// blank is a script with its comments and strings blanked.
func blank(text string) string {
	return regexp.MustCompile(`--[^\n]*|'[^'\n]*'`).ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("_", len(s)) })
}

var junction = regexp.MustCompile(`\b(and|or)\b|[()]`)

// parts splits a condition at the words that join it, and what is in brackets again. alone is what it counts as that is not
// joined to anything.
func parts(code string, from, to int, alone bool) (all []Drop) {
	for _, word := range []string{"or", "and"} { // or joins what and has joined
		var cuts []int
		depth := 0
		for _, m := range junction.FindAllStringIndex(code[from:to], -1) {
			switch code[from+m[0] : from+m[1]] {
			case "(":
				depth++
			case ")":
				depth--
			case word:
				if depth == 0 {
					cuts = append(cuts, from+m[0], from+m[1])
				}
			}
		}
		if len(cuts) == 0 {
			continue
		}
		cuts = append(append([]int{from}, cuts...), to)
		for i := 0; i < len(cuts); i += 2 {
			all = append(all, parts(code, cuts[i], cuts[i+1], word == "and")...)
		}
		return all
	}
	for from < to && code[from] <= ' ' {
		from++
	}
	for from < to && code[to-1] <= ' ' {
		to--
	}
	if from < to && code[from] == '(' && code[to-1] == ')' {
		return parts(code, from+1, to-1, alone)
	}
	if from == to {
		return nil
	}
	return []Drop{{As: alone, from: from, to: to}}
}
