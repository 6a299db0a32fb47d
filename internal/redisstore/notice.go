package redisstore

import (
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
)

// The first word of a notice. The sender's ID follows, then the other IDs.
const (
	wordTaken  = "taken"  // taken <from> <id>…
	wordFreed  = "freed"  // freed <from> <id> <heir> …
	wordJoined = "joined" // joined <from>
	wordLeft   = "left"   // left <from>
	wordAsked  = "asked"  // asked <from> <owner> <id>…
	wordGive   = "give"   // give <from> <owner> <id> <fence>
	wordNumber = "number" // number <from> <number of the notice before it> <end of the epoch's quarantine>

	nobody = "-" // in place of an heir
)

// noticeMax bounds a notice in bytes, wordsMax in words. Anyone with publish rights could send longer ones, and splitting can take
// sixteen times the size of a message. The longest notice of an instance releases ItemsMax leases, each with an heir, and has 514 kB.
// AskTexts splits requests. Subscriptions drop longer messages (redisclient.Bounded).
const (
	noticeMax = 512 << 10
	wordsMax  = 1 << 14
)

// fromMax bounds a sender's name in bytes, because the core keeps it for each awaited lease. Discovery covers longer names.
const fromMax = 1 << 10

// ParseNotice parses a message of the channel. It ignores other kinds, such as those of later versions, and overlong messages.
func ParseNotice(text string) (core.Notice, bool) {
	if len(text) > noticeMax || strings.Count(text, " ") >= wordsMax {
		return core.Notice{}, false
	}
	words := strings.Split(text, " ")
	if len(words) < 2 || len(words[1]) > fromMax || CheckInstance(words[1]) != nil {
		return core.Notice{}, false
	}
	n, rest := core.Notice{From: strings.Clone(words[1])}, words[2:] // a substring would keep the whole message in memory
	switch words[0] {
	case wordTaken:
		n.Kind, n.IDs = core.NoticeTaken, rest
		return n, len(rest) > 0
	case wordFreed:
		n.Kind = core.NoticeFreed
		n.IDs, n.Peers = make([]string, len(rest)/2), make([]string, len(rest)/2)
		for i := range n.IDs {
			n.IDs[i] = rest[2*i]
			if heir := rest[2*i+1]; heir != nobody {
				n.Peers[i] = heir
			}
		}
		return n, len(rest) > 0 && len(rest)%2 == 0
	case wordJoined:
		n.Kind = core.NoticeJoined
		return n, len(rest) == 0
	case wordLeft:
		n.Kind = core.NoticeLeft
		return n, len(rest) == 0
	case wordAsked:
		if len(rest) < 2 {
			return n, false
		}
		n.Kind, n.Peers, n.IDs = core.NoticeAsked, rest[:1], rest[1:]
		return n, true
	case wordNumber:
		return numbered(n, rest)
	case wordGive:
		if len(rest) != 3 {
			return n, false
		}
		n.Kind, n.Peers, n.IDs = NoticeGive, []string{rest[0], rest[2]}, rest[1:2]
		_, ok := GiveOf(&n)
		return n, ok
	}
	return n, false
}

func numbered(n core.Notice, rest []string) (core.Notice, bool) {
	if len(rest) != 2 {
		return n, false
	}
	number, err := strconv.ParseInt(rest[0], 10, 64)
	n.Kind, n.Number, n.Epoch = core.NoticeNumber, number, strings.Clone(rest[1])
	return n, err == nil && number > 0
}
