package redis

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
)

func init() {
	maps.Copy(verbs, keyspaceVerbs)
}

// names returns the names of the keys that exist.
func (d *Data) names(t int64) []string {
	keys := d.Keys(t)
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = d.nameOf(k)
	}
	return names
}

// Sweep deletes the expired keys, for the clients that want to know. Redis does so about ten times a second.
func (r *Server) Sweep(t int64) {
	if slices.ContainsFunc(r.fronts, func(f *Front) bool { return f.tracks }) {
		r.Keys(t)
	}
}

func (d *Data) nameOf(k Key) string {
	switch k.kind {
	case keyLease:
		return d.leaseName(k.i)
	case keyFence:
		return d.fenceName(k.i)
	case keyBeat:
		return d.numbers.beatNames[k.i]
	case keyEpoch:
		return d.cfg.EpochKey
	}
	return k.name
}

func cmdKeys(r *Server, t int64, args []string) Reply {
	out := []Reply{}
	for _, name := range r.names(t) {
		if matches(args[0], name) {
			out = append(out, name)
		}
	}
	return out
}

func cmdDBSize(r *Server, t int64, _ []string) Reply { return int64(len(r.Keys(t))) }

func cmdType(r *Server, t int64, args []string) Reply { return status(r.typeOf(t, args[0])) }

func (d *Data) typeOf(t int64, name string) string {
	k := d.keyAt(name)
	switch v := d.get(k, d.NowMs(t)); {
	case !v.there:
		return "none"
	case !v.foreign:
		return "string"
	case k.kind != keyOther:
		return "list"
	}
	return []string{objString: "string", objHash: "hash", objSet: "set", objZSet: "zset", objStream: "stream"}[d.others[name].kind]
}

// scanPage is SCAN's default COUNT.
const scanPage = 10

// cmdScan visits the keys in the order of their names' hashes. So a key that exists throughout a scan is found, as in Redis.
func cmdScan(r *Server, t int64, args []string) Reply {
	from, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return Refusal("ERR invalid cursor")
	}
	options, no := scanOptions(args[1:])
	if no != "" {
		return no
	}
	page, next := pageOf(r.names(t), from, options.count)
	out := []Reply{}
	for _, name := range page {
		if matches(options.pattern, name) && (options.kind == "" || r.typeOf(t, name) == options.kind) {
			out = append(out, name)
		}
	}
	return []Reply{strconv.FormatUint(next, 10), out}
}

type scanning struct {
	count         int
	pattern, kind string
}

func scanOptions(words []string) (o scanning, no Refusal) {
	o = scanning{count: scanPage, pattern: "*"}
	for i := 0; i < len(words); i += 2 {
		if i+1 == len(words) {
			return o, textSyntax
		}
		switch word := words[i+1]; upper(words[i]) {
		case "MATCH":
			o.pattern = word
		case "TYPE":
			o.kind = strings.ToLower(word)
		case "COUNT":
			n, err := strconv.Atoi(word)
			if err != nil {
				return o, textNotInteger
			}
			if o.count = n; n < 1 {
				return o, textSyntax
			}
		default:
			return o, textSyntax
		}
	}
	return o, ""
}

// pageOf returns at least count names whose hashes are not below from, and the hash that the next page begins with; 0: there is none.
func pageOf(names []string, from uint64, count int) (page []string, next uint64) {
	type place struct {
		at   uint64
		name string
	}
	var all []place
	for _, name := range names {
		if at := scanHash(name); at >= from {
			all = append(all, place{at, name})
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.name, b.name)) })
	for i, p := range all {
		if i >= count && p.at != all[i-1].at {
			return page, p.at
		}
		page = append(page, p.name)
	}
	return page, 0
}

// scanHash has 48 bits, because clients may read a cursor as a float.
func scanHash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()>>16 | 1
}

func cmdFlush(r *Server, _ int64, _ []string) Reply {
	r.flush()
	return status("OK")
}

var keyspaceVerbs = map[string]verb{
	"KEYS":     {args: 1, most: 1, keys: noKeys, run: cmdKeys},
	"SCAN":     {args: 1, keys: noKeys, run: cmdScan},
	"DBSIZE":   {keys: noKeys, run: cmdDBSize},
	"TYPE":     {args: 1, most: 1, run: cmdType},
	"UNLINK":   {args: 1, writes: true, run: cmdDel},
	"TOUCH":    {args: 1, keys: allKeys, run: cmdExists},
	"FLUSHALL": {most: 1, writes: true, run: cmdFlush},
	"FLUSHDB":  {most: 1, writes: true, run: cmdFlush},
}
