package redis

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// interpreter runs the store's own .lua files on the model's keys. Tests compare it with redis.execute.
type interpreter struct {
	r     *Server
	wire  redisstore.Wire
	state *lua.LState
	known map[string]*lua.LFunction // by text; never ranged over
	t     int64                     // of the current call
	op    *core.Op                  // of the current call

	reads  bool   // the script may not write
	failed string // where the last command raised an error
}

// registry limits a script's values, because owners.lua unpacks a thousand keys.
const registry = 1 << 15

func newInterpreter(r *Server) *interpreter {
	in := &interpreter{r: r, wire: r.wire, known: map[string]*lua.LFunction{}}
	l := lua.NewState(lua.Options{SkipOpenLibs: true, RegistrySize: registry})
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString, lua.OpenMath} {
		l.Push(l.NewFunction(open))
		l.Call(0, 0)
	}
	words := l.GetGlobal("string").(*lua.LTable)
	words.RawSetString("match", l.NewFunction(remembered(words.RawGetString("match").(*lua.LFunction).GFunction)))
	api := l.NewTable()
	api.RawSetString("call", l.NewFunction(func(l *lua.LState) int { return in.command(l, true) }))
	api.RawSetString("pcall", l.NewFunction(func(l *lua.LState) int { return in.command(l, false) }))
	api.RawSetString("error_reply", l.NewFunction(func(l *lua.LState) int {
		l.Push(failure(l, l.CheckString(1)))
		return 1
	}))
	api.RawSetString("status_reply", l.NewFunction(func(l *lua.LState) int {
		t := l.NewTable()
		t.RawSetString("ok", lua.LString(l.CheckString(1)))
		l.Push(t)
		return 1
	}))
	api.RawSetString("sha1hex", l.NewFunction(func(l *lua.LState) int {
		l.Push(lua.LString(sumOf(l.CheckString(1))))
		return 1
	}))
	for _, name := range []string{"log", "replicate_commands", "setresp"} {
		api.RawSetString(name, l.NewFunction(func(*lua.LState) int { return 0 }))
	}
	for i, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		api.RawSetString(name, lua.LNumber(i))
	}
	l.SetGlobal("redis", api)
	// As in Redis, a script that sets a global variable fails.
	locked := l.NewTable()
	locked.RawSetString("__newindex", l.NewFunction(func(l *lua.LState) int {
		l.RaiseError("Attempt to modify a readonly table")
		return 0
	}))
	l.SetMetatable(l.Get(lua.GlobalsIndex), locked)
	in.state = l
	return in
}

func (r *Server) interpreted() *interpreter {
	if r.interpreter == nil {
		r.interpreter = newInterpreter(r)
	}
	return r.interpreter
}

func (in *interpreter) do(t int64, op *core.Op) core.Answer {
	in.t, in.op = t, op
	if op.Kind == core.OpLook {
		all := *op
		all.Sum = 0 // the caller joins two readings
		return in.looked(&all, in.wire.Look)
	}
	if err := in.wire.Validate(op); err != nil {
		return core.Answer{
			Seq: op.Seq, Failure: core.FailRefused, Text: err.Error(), Results: make([]core.Result, len(op.Items)),
		}
	}
	if op.Kind == core.OpAsk {
		in.r.command(t, "PUBLISH", []string{in.r.Config.Channel, redisstore.AskText(op)})
		return core.Answer{Seq: op.Seq, Results: make([]core.Result, len(op.Items))}
	}
	got, err := in.run(in.wire.Call(op))
	if err != nil {
		return in.wire.Failed(op, err.Error())
	}
	return in.wire.Answer(op, got)
}

func (in *interpreter) glance(t int64, op *core.Op) core.Answer {
	in.t, in.op = t, op
	return in.looked(op, in.wire.LookOwners)
}

func (in *interpreter) looked(op *core.Op, look func(*core.Op, *core.Sessions, redisstore.Reader) (core.Answer, error),
) core.Answer {
	a, err := look(op, in.r.sessionSet, redisstore.Reader{
		Run: in.run, Scan: func(string) ([]string, error) { return in.beats(), nil },
	})
	if err != nil {
		return in.wire.Failed(op, err.Error())
	}
	return a
}

func (in *interpreter) beats() []string {
	alive := in.r.scan(in.r.NowMs(in.t))
	names := make([]string, len(alive))
	for n, i := range alive {
		names[n] = in.r.beats[i].id
	}
	return names
}

// run runs a script. The error is Redis' reply.
func (in *interpreter) run(c redisstore.Call) ([]any, error) {
	if in.r.Config.Local {
		c = c.AsNew()
	}
	args := make([]string, len(c.Args))
	for i, arg := range c.Args {
		switch arg {
		case true:
			args[i] = "1"
		case false:
			args[i] = "0"
		default:
			args[i] = fmt.Sprint(arg)
		}
	}
	text, keys, older := c.Text(), c.Keys, false
	if in.r.Config.Older != nil {
		text, keys, older = in.r.Config.Older(in.op, c)
	}
	if in.r.deniesOne(keys) {
		return nil, Refusal(textNoKey)
	}
	got, err := in.eval(text, keys, args)
	if err != nil {
		return nil, err
	}
	list, ok := got.([]Reply)
	if !ok {
		return nil, fmt.Errorf("the script returned %T, want a list", got)
	}
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	if older {
		out = slices.Insert(out, 3, any(int64(0))) // it returns no group
	}
	return out, nil
}

const rememberedMax = 1000

// remembered caches the results of string.match, which compiles its pattern each time. Scripts mostly repeat themselves.
func remembered(match lua.LGFunction) lua.LGFunction {
	type question struct{ text, pattern lua.LString }
	known := map[question][]lua.LValue{}
	return func(l *lua.LState) int {
		text, ok := l.Get(1).(lua.LString)
		pattern, ok2 := l.Get(2).(lua.LString)
		if !ok || !ok2 || l.GetTop() != 2 {
			return match(l)
		}
		q := question{text, pattern}
		if got, ok := known[q]; ok {
			for _, v := range got {
				l.Push(v)
			}
			return len(got)
		}
		n := match(l)
		got := make([]lua.LValue, n)
		for i := range got {
			got[i] = l.Get(i - n)
		}
		if len(known) == rememberedMax {
			clear(known)
		}
		known[q] = got
		return n
	}
}

func uncompiled(err error) Refusal {
	return Refusal("ERR Error compiling script (new function): " + strings.TrimSpace(strings.ReplaceAll(err.Error(), "\n", " ")))
}

// compiled returns the function of a script.
func (in *interpreter) compiled(text string) (*lua.LFunction, error) {
	if fn, ok := in.known[text]; ok {
		return fn, nil
	}
	source := text
	if in.r.Config.Script != nil {
		source = in.r.Config.Script(text)
	}
	chunk, err := parse.Parse(strings.NewReader(source), "@user_script")
	if err != nil {
		return nil, uncompiled(err)
	}
	proto, err := lua.Compile(chunk, "@user_script")
	if err != nil {
		return nil, uncompiled(err)
	}
	proto.IsVarArg &^= lua.VarArgNeedsArg // a script has no table arg
	fn := in.state.NewFunctionFromProto(proto)
	in.known[text] = fn
	return fn, nil
}

func (in *interpreter) eval(text string, keys, args []string) (Reply, error) {
	l := in.state
	fn, err := in.compiled(text)
	if err != nil {
		return nil, err
	}
	globals := l.Get(lua.GlobalsIndex).(*lua.LTable)
	globals.RawSetString("KEYS", table(l, keys))
	globals.RawSetString("ARGV", table(l, args))
	in.r.dirty = false
	if err := l.CallByParam(lua.P{Fn: fn, NRet: 1, Protect: true}); err != nil {
		var raised *lua.ApiError
		errors.As(err, &raised) // a protected call returns no other error
		if t, ok := raised.Object.(*lua.LTable); ok {
			return nil, Refusal(lua.LVAsString(t.RawGetString("err")))
		}
		line, _, _ := strings.Cut(raised.Object.String(), "\n")
		return nil, Refusal("ERR " + line[:min(len(line), 200)])
	}
	got := ofLua(l.Get(-1))
	l.Pop(1)
	if e, ok := got.(Refusal); ok {
		return nil, e
	}
	in.r.use.scripts++
	return got, nil
}

func (in *interpreter) command(l *lua.LState, raises bool) int {
	args := make([]string, l.GetTop())
	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(v)
		case lua.LNumber:
			args[i] = strconv.FormatFloat(float64(v), 'g', 17, 64)
		default:
			l.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}
	if len(args) == 0 {
		l.RaiseError("Please specify at least one argument for this redis.call()")
	}
	got := in.obey(args)
	if _, blocks := got.(WaitFor); blocks {
		got = nil
	}
	if e, ok := got.(Refusal); ok && raises {
		in.failed = l.Where(1)
		l.Error(failure(l, string(e)), 0)
	}
	l.Push(toLua(l, got))
	return 1
}

func (in *interpreter) obey(args []string) Reply {
	if v := verbs[upper(args[0])]; in.reads && v.writes {
		return Refusal("ERR Write commands are not allowed from read-only scripts.")
	}
	return in.r.command(in.t, args[0], args[1:])
}

func failure(l *lua.LState, text string) *lua.LTable {
	t := l.NewTable()
	t.RawSetString("err", lua.LString(text))
	return t
}

func table(l *lua.LState, words []string) *lua.LTable {
	t := l.CreateTable(len(words), 0)
	for i, word := range words {
		t.RawSetInt(i+1, lua.LString(word))
	}
	return t
}

// toLua and ofLua convert replies as Redis does for RESP2.
func toLua(l *lua.LState, v Reply) lua.LValue {
	switch v := v.(type) {
	case nil:
		return lua.LFalse
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case Refusal:
		return failure(l, string(v))
	case status:
		t := l.NewTable()
		t.RawSetString("ok", lua.LString(v))
		return t
	case []Reply:
		t := l.CreateTable(len(v), 0)
		for i := range v {
			t.RawSetInt(i+1, toLua(l, v[i]))
		}
		return t
	}
	panic(fmt.Sprintf("redis: a command replied %T", v))
}

func ofLua(v lua.LValue) Reply {
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return int64(v) // truncated
	case lua.LBool:
		if v {
			return int64(1)
		}
		return nil
	case *lua.LTable:
		if err, ok := v.RawGetString("err").(lua.LString); ok {
			return Refusal(err)
		}
		if ok, is := v.RawGetString("ok").(lua.LString); is {
			return status(ok)
		}
		var out []Reply
		for i := 1; ; i++ {
			next := v.RawGetInt(i)
			if next == lua.LNil {
				return out
			}
			out = append(out, ofLua(next))
		}
	}
	return nil
}
