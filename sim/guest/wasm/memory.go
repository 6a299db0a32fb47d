package wasm

import "github.com/tetratelabs/wazero/api"

// call is a call of the host by the program. Arguments of 32 bits have garbage in their upper halves.
type call struct {
	*program
	mem  api.Memory
	args []uint64
}

func (c call) u32(i int) uint32 { return uint32(c.args[i]) }

func (c call) i32(i int) int32 { return int32(c.args[i]) }

// put writes a number of 32 bits into the program's memory.
func (c call) put(at, v uint32) {
	if !c.mem.WriteUint32Le(at, v) {
		c.stop("it gave the system an address outside of its memory")
	}
}

// bytes returns a part of the program's memory, which the program sees change.
func (c call) bytes(at, n uint32) []byte {
	b, ok := c.mem.Read(at, n)
	if !ok {
		c.stop("it gave the system an address outside of its memory")
	}
	return b
}

// putSizes answers how many strings there are and their bytes together, each with a zero byte at its end.
func (c call) putSizes(texts []string) errno {
	n := 0
	for _, s := range texts {
		n += len(s) + 1
	}
	c.put(c.u32(0), uint32(len(texts)))
	c.put(c.u32(1), uint32(n))
	return success
}

func (c call) putStrings(texts []string) errno {
	list, at := c.u32(0), c.u32(1)
	for i, s := range texts {
		c.put(list+4*uint32(i), at)
		copy(c.bytes(at, uint32(len(s))+1), s+"\x00")
		at += uint32(len(s)) + 1
	}
	return success
}
