package wasm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// A program that computes without end calls no host. So each loop in its code takes one from a counter, and traps when that is negative.
// A context of wazero would end such a program too, but at another point in every run, and a check costs a call.

// budgetName is the export of the counter, a global of 64 bits.
const budgetName = "leasestorm.budget"

// Sections of a module of WebAssembly that change.
const (
	importSection, globalSection, exportSection, codeSection = 2, 6, 7, 10
)

var errNotGo = errors.New("this module of WebAssembly is not from the go command")

// limited returns module with the counter.
func limited(module []byte) (out []byte, err error) {
	defer func() {
		if r, ok := recover().(shape); ok {
			out, err = nil, fmt.Errorf("%w: %s", errNotGo, string(r))
		}
	}()
	r := reader{module}
	out = append(out, r.take(8)...)
	index := uint32(0)
	for len(r.rest) > 0 {
		id := r.take(1)[0]
		section := reader{r.take(int(r.number()))}
		body := section.rest
		switch id {
		case importSection:
			section.onlyFunctions()
		case globalSection:
			index = section.number()
			body = slicesOf(leb(index+1), section.rest, []byte{0x7e, 1, 0x42, 0, 0x0b}) // mutable i64, 0 at first
		case exportSection:
			n := section.number()
			body = slicesOf(leb(n+1), section.rest, leb(uint32(len(budgetName))), []byte(budgetName), []byte{3}, leb(index))
		case codeSection:
			body = section.functions(index)
		}
		out = append(out, id)
		out = append(out, leb(uint32(len(body)))...)
		out = append(out, body...)
	}
	return out, nil
}

// shape is the panic of a reader that meets something else than expected.
type shape string

// reader reads the binary format from the front.
type reader struct{ rest []byte }

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		panic(shape("it ends too soon"))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) number() uint32 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > 1<<32-1 {
		panic(shape("it has a number that is too long"))
	}
	r.take(n)
	return uint32(v)
}

// skip skips numbers of any size and sign.
func (r *reader) skip(numbers int) {
	for range numbers {
		for r.take(1)[0]&0x80 != 0 {
		}
	}
}

func (r *reader) onlyFunctions() {
	for n := r.number(); n > 0; n-- {
		r.take(int(r.number()))
		r.take(int(r.number()))
		if kind := r.take(1)[0]; kind != 0 {
			panic(shape("it imports more than functions"))
		}
		r.number()
	}
}

// functions returns the code section with the check in each loop.
func (r *reader) functions(index uint32) []byte {
	if index == 0 {
		panic(shape("it has no globals"))
	}
	check := slicesOf([]byte{0x23}, leb(index), // global.get
		[]byte{0x42, 1, 0x7d, 0x24}, leb(index), // i64.const 1, i64.sub, global.set
		[]byte{0x23}, leb(index), []byte{0x42, 0, 0x53}, // global.get, i64.const 0, i64.lt_s
		[]byte{0x04, 0x40, 0x00, 0x0b}) // if, unreachable, end
	n := r.number()
	out := leb(n)
	for ; n > 0; n-- {
		f := reader{r.take(int(r.number()))}
		body := f.function(check)
		out = append(append(out, leb(uint32(len(body)))...), body...)
	}
	return out
}

func (r *reader) function(check []byte) []byte {
	var out bytes.Buffer
	whole := r.rest
	for n := r.number(); n > 0; n-- { // locals
		r.number()
		r.take(1)
	}
	done := 0 // bytes of whole that are in out
	for len(r.rest) > 0 {
		if r.instruction() == opLoop {
			at := len(whole) - len(r.rest)
			out.Write(whole[done:at])
			out.Write(check)
			done = at
		}
	}
	out.Write(whole[done:])
	return out.Bytes()
}

const opLoop = 0x03

// instruction skips an instruction with its immediates and returns its opcode. It knows those that Go emits.
func (r *reader) instruction() byte {
	op := r.take(1)[0]
	switch {
	case op >= 0x02 && op <= 0x04: // block, loop, if
		r.skip(1)
	case op == 0x0c || op == 0x0d || op == 0x10: // br, br_if, call
		r.skip(1)
	case op == 0x0e: // br_table
		r.skip(int(r.number()) + 1)
	case op == 0x11: // call_indirect
		r.skip(2)
	case op >= 0x20 && op <= 0x24: // locals and globals
		r.skip(1)
	case op >= 0x28 && op <= 0x3e: // load and store
		r.skip(2)
	case op == 0x3f || op == 0x40 || op == 0x41 || op == 0x42: // memory.size, memory.grow, i32.const, i64.const
		r.skip(1)
	case op == 0x43: // f32.const
		r.take(4)
	case op == 0x44: // f64.const
		r.take(8)
	case op == 0xfc:
		r.extended()
	case op > 0xc4 || op > 0x11 && op < 0x1a || op > 0x1b && op < 0x20 || op > 0x05 && op < 0x0b:
		panic(shape(fmt.Sprintf("it has the instruction %#x", op)))
	}
	return op
}

func (r *reader) extended() {
	switch op := r.number(); {
	case op <= 7: // conversions
	case op == 10: // memory.copy
		r.skip(2)
	case op == 11: // memory.fill
		r.skip(1)
	default:
		panic(shape(fmt.Sprintf("it has the instruction 0xfc %d", op)))
	}
}

func leb(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

func slicesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
