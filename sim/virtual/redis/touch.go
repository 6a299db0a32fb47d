package redis

// touch tells the clients that a key has changed.
func (d *Data) touch(name string) {
	if d.touched != nil {
		d.touched(name)
	}
}

func (d *Data) touchLease(i int32) {
	if d.touched != nil {
		d.touched(d.leaseName(i))
	}
}

func (d *Data) touchFence(i int32) {
	if d.touched != nil {
		d.touched(d.fenceName(i))
	}
}

func (d *Data) touchBeat(i int32) {
	if d.touched != nil {
		d.touched(d.numbers.beatNames[i])
	}
}

func (d *Data) leaseName(i int32) string {
	if name, ok := d.numbers.leaseNames[i]; ok {
		return name
	}
	id := d.leases[i].id
	if id == electionLeader {
		return id
	}
	return d.cfg.LeasePrefix + id
}

func (d *Data) fenceName(i int32) string { return "{" + d.leaseName(i) + "}:fence" }
