package redis

import (
	"fmt"
	"slices"
	"strings"
)

// Front is the server's side of a client's connection.
type Front struct {
	server *Server
	push   func(frames []byte)
	in     input
	id     int64
	name   string
	resp3  bool
	closes bool

	t     int64
	runs  bool    // a command is being executed
	early []byte  // frames before its reply
	late  []byte  // frames after its reply
	wait  WaitFor // for what

	channels []string
	patterns []string

	transaction
	tracking
}

// Connect returns a new connection. push receives the messages and invalidations that no command of the connection causes.
func (r *Server) Connect(push func(frames []byte)) *Front {
	r.opened++
	f := &Front{server: r, push: push, id: r.opened}
	r.fronts = append(r.fronts, f)
	r.touched = r.touchFronts
	return f
}

// Close ends the connection.
func (f *Front) Close() {
	r := f.server
	r.fronts = slices.DeleteFunc(r.fronts, func(o *Front) bool { return o == f })
	if len(r.fronts) == 0 {
		r.touched = nil
	}
}

// Closes reports whether the server closes the connection once the replies are sent.
func (f *Front) Closes() bool { return f.closes }

// Commands takes bytes of the client, and returns the commands that are complete. After an error, Closes is true, and reply is the last.
func (f *Front) Commands(p []byte) (commands [][]string, reply []byte) {
	f.in.feed(p)
	for {
		args, err := f.in.next()
		switch {
		case err != nil:
			f.closes = true
			return commands, f.Frame(err)
		case args == nil:
			return commands, nil
		}
		commands = append(commands, args)
	}
}

// Frame returns a reply as bytes.
func (f *Front) Frame(v Reply) []byte { return appendReply(nil, v, f.resp3) }

// Execute executes a command at true time t and returns what the server sends. If the command blocks, it also returns what it waits for:
// the caller executes it again later, or calls Resume. The caller calls TakeFed afterwards.
func (f *Front) Execute(t int64, args []string) (out []byte, wait *WaitFor) {
	f.t, f.runs, f.server.caller = t, true, f
	v := f.reply(strings.ToUpper(args[0]), args)
	for _, o := range f.server.fronts {
		o.sendBatch()
	}
	f.runs, f.server.caller = false, nil
	if w, blocks := v.(WaitFor); blocks {
		if w.Block == 0 {
			w.Block = endless
		}
		f.wait, wait = w, &w
	} else {
		f.early = appendReply(f.early, v, f.resp3)
	}
	out = append(f.early, f.late...)
	f.early, f.late = nil, nil
	return out, wait
}

// Resume ends the command that waits: nil means that its time is over. WAIT is told the number of replicas.
func (f *Front) Resume(v Reply) []byte {
	if v == nil {
		v = f.wait.given()
	}
	return f.Frame(v)
}

// endless is a wait without limit, in ms.
const endless = int64(1) << 40

// out adds frames that are not a reply.
func (f *Front) send(v Reply, late bool) {
	switch frames := f.Frame(v); {
	case !f.runs:
		f.push(frames)
	case late:
		f.late = append(f.late, frames...)
	default:
		f.early = append(f.early, frames...)
	}
}

func (f *Front) reply(name string, args []string) Reply {
	defer f.forgetCaching(name)
	if why := f.refusal(name, args); why != "" {
		f.doomed = f.doomed || f.multi
		if name == "EXEC" && len(args) == 1 {
			return f.abort(strings.TrimPrefix(string(why), "ERR "))
		}
		return why
	}
	if f.multi && !slices.Contains(unqueued, name) {
		f.queue = append(f.queue, args)
		return status("QUEUED")
	}
	return f.run(name, args)
}

// unqueued are the commands that a transaction does not queue.
var unqueued = []string{"EXEC", "DISCARD", "MULTI", "WATCH", "QUIT", "RESET"}

// refusal returns why Redis does not even queue a command, "" if it does.
func (f *Front) refusal(name string, args []string) Refusal {
	v, own := f.verb(name)
	least, most := v.args, v.most
	if !own {
		server, known := f.keyVerb(name)
		if !known {
			return unknown(args)
		}
		least, most = server.args, server.most
	}
	if n := len(args) - 1; n < least || most > 0 && n > most {
		return wrongNumber(name)
	}
	if len(args) > 1 {
		if no := subcommandRefusal(name, args[1:]); no != "" {
			return no
		}
	}
	if !f.resp3 && len(f.channels)+len(f.patterns) > 0 && !slices.Contains(whileSubscribed, name) {
		return Refusal(fmt.Sprintf("ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in "+
			"this context", fullName(name, args)))
	}
	if f.server.Loading && !slices.Contains(whileLoading, name) {
		return TextLoading
	}
	if v := verbs[name]; !own && !v.outer {
		return Refusal(f.server.refused(name, v, args[1:]))
	}
	return ""
}

var whileSubscribed = []string{"SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "PING", "QUIT", "RESET"}

// whileLoading are the commands that a server executes before it has read its data.
var whileLoading = []string{
	"HELLO", "AUTH", "CLIENT", "SELECT", "RESET", "QUIT", "MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "SUBSCRIBE", "UNSUBSCRIBE",
	"PSUBSCRIBE", "PUNSUBSCRIBE", "PUBLISH", "COMMAND", "CONFIG", "ROLE", "INFO", "TIME",
}

func (f *Front) run(name string, args []string) Reply {
	if v, own := f.verb(name); own {
		return v.run(f, args[1:])
	}
	return f.shaped(name, args, f.server.Obey(f.t, args))
}

// fullName returns the name of a command with its subcommand, if it has any.
func fullName(name string, args []string) string {
	if len(args) > 1 && slices.Contains([]string{"CLIENT", "CLUSTER", "COMMAND", "CONFIG", "SCRIPT", "SENTINEL", "XGROUP", "XINFO"}, name) {
		name += "|" + args[1]
	}
	return strings.ToLower(name)
}

// frontVerb is a command that concerns the connection. args and most bound its arguments; 0: no bound.
type frontVerb struct {
	args, most int
	run        func(f *Front, args []string) Reply
}
