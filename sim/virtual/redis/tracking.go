package redis

import (
	"slices"
	"strings"
)

// tracking is the state of CLIENT TRACKING.
type tracking struct {
	tracks, broadcast, optIn, optOut, noLoop bool

	prefixes []string
	caching  bool            // the next command is an exception of optIn or optOut
	read     map[string]bool // keys to invalidate; never ranged over
	batch    []string        // keys to invalidate after this command
}

// remember notes that the client has read keys.
func (f *Front) remember(names []string) {
	if !f.tracks || f.broadcast || f.optIn && !f.caching || f.optOut && f.caching {
		return
	}
	for _, name := range names {
		f.read[name] = true
	}
}

// forgetCaching ends the effect of CLIENT CACHING after the next command, or after a transaction.
func (f *Front) forgetCaching(name string) {
	if name != "CLIENT" && !f.multi {
		f.caching = false
	}
}

// touchFronts tells the connections that a key has changed, "" that all have.
func (r *Server) touchFronts(name string) {
	for _, f := range r.fronts {
		f.touch(name)
	}
}

func (f *Front) touch(name string) {
	f.changed = f.changed || slices.Contains(f.watched, name) || name == "" && len(f.watched) > 0
	own := f.noLoop && f.server.caller == f
	switch {
	case !f.tracks:
	case name == "":
		clear(f.read)
		f.invalidate(noList{})
	case f.broadcast:
		if !own && slices.ContainsFunc(f.prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			f.batch = append(f.batch, name)
		}
		if f.server.caller == nil {
			f.sendBatch()
		}
	case f.read[name]:
		delete(f.read, name)
		if !own {
			f.invalidate([]Reply{name})
		}
	}
}

// sendBatch sends what one command has invalidated in BCAST mode.
func (f *Front) sendBatch() {
	if len(f.batch) > 0 {
		slices.Sort(f.batch)
		f.invalidate(texts(slices.Compact(f.batch)))
		f.batch = nil
	}
}

func (f *Front) invalidate(keys Reply) {
	if f.resp3 { // RESP2 needs a redirection
		f.send(push{"invalidate", keys}, true)
	}
}

// track is CLIENT TRACKING without REDIRECT.
func (f *Front) track(args []string) Reply {
	next := tracking{tracks: true, read: map[string]bool{}, caching: f.caching}
	for i := 1; i < len(args); i++ {
		switch upper(args[i]) {
		case "BCAST":
			next.broadcast = true
		case "OPTIN":
			next.optIn = true
		case "OPTOUT":
			next.optOut = true
		case "NOLOOP":
			next.noLoop = true
		case "PREFIX":
			if i++; i == len(args) {
				return Refusal(textSyntax)
			}
			next.prefixes = append(next.prefixes, args[i])
		default:
			return Refusal(textSyntax)
		}
	}
	switch upper(args[0]) {
	case "ON":
		return f.setTracking(&next)
	case "OFF":
		f.tracking = tracking{}
		return status("OK")
	}
	return Refusal(textSyntax)
}

func (f *Front) setTracking(next *tracking) Reply {
	switch {
	case !next.broadcast && len(next.prefixes) > 0:
		return Refusal("ERR PREFIX option requires BCAST mode to be enabled")
	case f.tracks && f.broadcast != next.broadcast:
		return Refusal("ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with " +
			"a different mode.")
	case next.broadcast && (next.optIn || next.optOut):
		return Refusal("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case next.optIn && next.optOut:
		return Refusal("ERR You can't specify both OPTIN mode and OPTOUT mode")
	case f.tracks && (f.optIn && next.optOut || f.optOut && next.optIn):
		return Refusal("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with " +
			"a different mode.")
	}
	if next.broadcast && len(next.prefixes) == 0 {
		next.prefixes = []string{""}
	}
	if f.tracks {
		next.read, next.prefixes = f.read, append(next.prefixes, f.prefixes...)
		slices.Sort(next.prefixes)
		next.prefixes = slices.Compact(next.prefixes)
	}
	f.tracking = *next
	return status("OK")
}

// exempt is CLIENT CACHING.
func (f *Front) exempt(args []string) Reply {
	switch yes := upper(args[0]); {
	case !f.tracks:
		return Refusal("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	case yes == "YES" && !f.optIn:
		return Refusal("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case yes == "NO" && !f.optOut:
		return Refusal("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	case yes != "YES" && yes != "NO":
		return Refusal(textSyntax)
	}
	f.caching = true
	return status("OK")
}

// trackingInfo is CLIENT TRACKINGINFO.
func (f *Front) trackingInfo() Reply {
	flags := []Reply{}
	for _, flag := range []struct {
		name string
		on   bool
	}{
		{"off", !f.tracks}, {"on", f.tracks}, {"bcast", f.broadcast}, {"optin", f.optIn}, {"caching-yes", f.optIn && f.caching},
		{"optout", f.optOut}, {"caching-no", f.optOut && f.caching}, {"noloop", f.noLoop},
	} {
		if flag.on {
			flags = append(flags, flag.name)
		}
	}
	redirect := int64(-1)
	if f.tracks {
		redirect = 0
	}
	return dict{"flags", members(flags), "redirect", redirect, "prefixes", texts(f.prefixes)}
}
