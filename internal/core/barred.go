package core

// Barred returns until when nothing may be acquired, and why; 0 if it may.
func (c *Core) Barred() (Time, Cause) { return c.barred() }
