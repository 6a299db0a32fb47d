package real

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Files of a server's data, beside what it appends to: what it dumps, and what it dumped for later.
const (
	dumpFile  = "dump.rdb"
	savedFile = "saved.rdb"
)

// save keeps a dump of the server's data for reload, under a name that what it copies of a master later does not have.
func (m *member) save(ctx context.Context) error {
	if err := m.client.Load().Save(ctx).Err(); err != nil {
		return err
	}
	return os.Rename(filepath.Join(m.dir, dumpFile), filepath.Join(m.dir, savedFile))
}

// reload starts a server that was killed out of what it saved. A dump says where in its master's stream it was made, which the file that
// the server appends to does not: so it begins without that one (appendAgain).
func (m *member) reload(ctx context.Context) error {
	if err := m.erase(); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(m.dir, savedFile), filepath.Join(m.dir, dumpFile)); err != nil {
		return err
	}
	return m.start(ctx, "--appendonly", "no")
}

// appendAgain has a server that was reloaded keep what it is told, as all others do, and waits until it does.
func (m *member) appendAgain(ctx context.Context) error {
	c := m.client.Load()
	if err := c.ConfigSet(ctx, "appendonly", "yes").Err(); err != nil {
		return err
	}
	if err := awaitFile(ctx, c); err != nil {
		return fmt.Errorf("%s does not append to its file: %w", m.name, err)
	}
	return nil
}
