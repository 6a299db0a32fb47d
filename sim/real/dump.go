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

// save keeps a dump of the server's data for reload, under a name that a later synchronisation with a master does not overwrite.
func (m *member) save(ctx context.Context) error {
	if err := m.client.Load().Save(ctx).Err(); err != nil {
		return err
	}
	return os.Rename(filepath.Join(m.dir, dumpFile), filepath.Join(m.dir, savedFile))
}

// reload starts a killed server from its saved dump, without the append-only file (appendAgain). Only the dump has the replication offset.
func (m *member) reload(ctx context.Context) error {
	if err := m.erase(); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(m.dir, savedFile), filepath.Join(m.dir, dumpFile)); err != nil {
		return err
	}
	return m.start(ctx, "--appendonly", "no")
}

// appendAgain makes a reloaded server write its append-only file again, as all others do, and waits until it does.
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
