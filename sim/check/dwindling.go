package check

// dwindling is a map that is gone through while it grows and shrinks. A map takes as long to go through as when it was largest, so this one
// is made anew once most of it has gone. The zero value is empty.
type dwindling[K comparable, V any] struct {
	of   map[K]V // to be read
	most int     // that it held since it was made
}

// roomy is how large a map may be that is not worth to be made anew.
const roomy = 64

func (d *dwindling[K, V]) put(key K, v V) {
	if d.of == nil {
		d.of = map[K]V{}
	}
	d.of[key] = v
	d.most = max(d.most, len(d.of))
}

func (d *dwindling[K, V]) drop(key K) {
	delete(d.of, key)
	if d.most <= roomy || len(d.of) > d.most/8 {
		return
	}
	rest := make(map[K]V, len(d.of))
	for k, v := range d.of {
		rest[k] = v
	}
	d.of, d.most = rest, len(rest)
}

func (d *dwindling[K, V]) clear() { *d = dwindling[K, V]{} }
