package page

const partLeast = 8

func isUUID(name string) bool { return len(name) == 36 && name[8] == '-' }

// partOf returns the shortest part that distinguishes all UUIDs among the names. It prefers the first letters, then the last.
func partOf(sessions []session) [2]int {
	for n := partLeast; ; n++ {
		offsets := []int{0, 36 - n}
		for i := 1; i < 36-n; i++ {
			offsets = append(offsets, i)
		}
		for _, at := range offsets {
			if differ(sessions, at, at+n) {
				return [2]int{at, at + n}
			}
		}
	}
}

func differ(sessions []session, from, to int) bool {
	seen := make(map[string]bool, len(sessions))
	for _, s := range sessions {
		if !isUUID(s.Name) {
			continue
		}
		part := s.Name[from:to]
		if seen[part] && to-from < 36 {
			return false
		}
		seen[part] = true
	}
	return true
}

func (m *model) short(name string) string {
	if isUUID(name) {
		return name[m.Part[0]:m.Part[1]]
	}
	return name
}
